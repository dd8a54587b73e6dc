// The frames of a hostile world's peer: in and out of order, with and without what they ought to
// hold.
#include "engine/control/handle.h"
#include "src/base/timeouts.h"
#include "tests/fuzz/hostile_world.h"
#include "tests/fuzz/quiet_log.h"

namespace mesh::fuzz {

using engine::Bytes, engine::ConnectionId, engine::MessageType;

void HostileWorld::turn_some(Input& input) {
  for (std::uint32_t i = 1 + input.below(4); i != 0; --i) turn();
}

void HostileWorld::advance(Input& input) {
  constexpr std::array<std::uint64_t, 5> kSteps{1'000, 1'000'000, 500'000'000, 1'000'000'000,
                                                kHandshakeStepToAnswerNs};
  clock_ns_.fetch_add(kSteps[input.below(kSteps.size())], std::memory_order_relaxed);
  turn();
}

ConnectionId HostileWorld::some_line(Input& input) const {
  if (plane_->lines.empty()) return 0;
  return std::next(plane_->lines.begin(),
                   input.below(static_cast<std::uint32_t>(plane_->lines.size())))
      ->first;
}

void HostileWorld::arrive(Input& input) {
  if (plane_->lines.size() >= 8) return;
  MemoryPlane::Line& line = plane_->lines[plane_->arrive()];
  line.link = {static_cast<std::uint8_t>(1 + input.below(4))};
}

void HostileWorld::answer_dial(Input& input) {
  const ConnectionId id = some_line(input);
  if (id != 0) plane_->push({.kind = MemoryPlane::Event::Kind::Dialed, .id = id});
  turn();
}

void HostileWorld::lose(Input& input) {
  const ConnectionId id = some_line(input);
  const Errc reason = input.below(2) == 0 ? Errc::PeerGone : Errc::Timeout;
  if (id != 0) plane_->push({.kind = MemoryPlane::Event::Kind::Lost, .id = id, .reason = reason});
  turn();
}

std::vector<engine::WirePath> HostileWorld::peer_paths(Input& input) const {
  std::vector<engine::WirePath> paths = said_.paths;
  for (engine::WirePath& path : paths) {
    path.qpn.assign(1 + said_.qps, 7);
    path.counters_address = input.u8();
  }
  return paths;
}

Bytes HostileWorld::connector_frame(Input& input, std::uint32_t kind) const {
  std::vector<engine::WireRail> rails(1 + input.below(2));
  const std::uint32_t subnet = input.below(3);
  for (std::size_t i = 0; i < rails.size(); ++i) {
    engine::WireRail& rail = rails[i];
    rail.addresses.resize(1);
    rail.addresses[0].gid[10] = rail.addresses[0].gid[11] = 0xff;
    const std::array<std::uint8_t, 4> address{10, 0,
                                              static_cast<std::uint8_t>(1 + (subnet + i) % 3), 1};
    std::copy(address.begin(), address.end(), rail.addresses[0].gid.begin() + 12);
    rail.addresses[0].prefix_len = 24;
    rail.mtu = 3;
    rail.gid_type = static_cast<std::uint8_t>(verbs::GidType::RoceV2);
    rail.name = "far";
    rail.speed_mbps = input.take<std::uint16_t>();
  }
  const std::uint32_t qps = 1 + input.below(3);
  if (kind == 0) {
    return encode({}, engine::Hello{.connector_context = {3},
                                    .acceptor_context = context_id_,
                                    .host = "peer",
                                    .qps = qps,
                                    .rq_depth = 16,
                                    .slots = 32,
                                    .rails = rails,
                                    .control_port = 4712,
                                    .control_addresses = {*SocketAddress::from_text("127.0.0.2")},
                                    .listeners = {nonce_}});
  }
  engine::Welcome welcome{
      .host = "peer", .qps = qps, .rq_depth = 16, .slots = 32, .rails = rails, .paths = {}};
  for (std::uint32_t i = 1 + input.below(3); i != 0; --i) {
    engine::WirePath path;
    path.connector_rail = static_cast<std::uint8_t>(input.below(3));
    path.acceptor_rail = static_cast<std::uint8_t>(input.below(2));
    path.mtu = 3;
    path.qpn.assign(input.below(2) == 0 ? 1 : 1 + qps, 9);
    welcome.meet.push_back(path);
    welcome.paths.push_back(std::move(path));
  }
  return encode({}, welcome);
}

Bytes HostileWorld::channel_frame(Input& input, std::uint32_t kind) const {
  const std::uint32_t channel = input.below(5) * (input.below(16) == 15 ? 2047u : 1u);
  const std::vector<std::uint32_t> rkeys(
      input.below(16) == 15 ? input.below(9) : std::max<std::size_t>(said_.paths.size(), 1), 1);
  const std::uint64_t count = input.below(8) == 7 ? UINT64_MAX : input.u8();
  switch (kind) {
    case 0:
      return encode({}, engine::Open{.listener = nonce_,
                                     .channel = channel,
                                     .life = 1,
                                     .credits_address = count,
                                     .credits_rkey = rkeys});
    case 1:
      return encode({}, engine::Opened{.channel = channel,
                                       .result = input.below(8) == 7 ? Errc::PeerClosed : Errc::Ok,
                                       .records_address = count,
                                       .records_rkey = rkeys});
    case 2:
      return encode({},
                    engine::Revoke{.channel = channel, .first_credit = 0, .credit_count = count});
    case 3:
      return encode({},
                    engine::Revoked{.channel = channel, .first_credit = 0, .credit_count = count});
    default: return encode({}, engine::Close{.channel = channel, .messages = count});
  }
}

Bytes HostileWorld::path_frame(Input& input, std::uint32_t kind) const {
  const auto path = static_cast<std::uint8_t>(input.below(3));
  const std::uint32_t epoch = input.below(8) == 7 ? UINT32_MAX : input.below(4);
  engine::WirePath ends;
  ends.mtu = 3;
  ends.qpn.assign(1 + said_.qps, 11);
  const bool takes = input.below(2) == 1;
  switch (kind) {
    case 0:
      return encode(
          {}, engine::Fence{
                  .path = path,
                  .epoch = epoch,
                  .cause = "so",
                  .stopped = takes || epoch % 2 == 0 ? std::uint8_t{1} : std::uint8_t{0},
                  .taken = std::vector<std::uint64_t>(takes ? 1 + said_.qps : 0, input.u8())});
    case 1: return encode({}, engine::Reopen{.path = path, .epoch = epoch, .ends = ends});
    case 2:
      if (takes)
        return encode({}, engine::Reopened{.path = path,
                                           .epoch = epoch,
                                           .result = Errc::Unreachable,
                                           .text = "no",
                                           .ends = {}});
      return encode(
          {}, engine::Reopened{
                  .path = path, .epoch = epoch, .result = Errc::Ok, .text = "", .ends = {ends}});
    case 3:
      if (takes) return encode({}, engine::PortUp{.rail = path});
      return encode({}, engine::PathUp{.path = path, .epoch = epoch});
    case 4:
      ends.qpn.resize(said_.qps);
      return encode({}, engine::Widen{.path = path, .epoch = epoch, .ends = ends});
    default:
      ends.qpn.resize(said_.qps);
      return encode({}, engine::Widened{.path = path,
                                        .epoch = epoch,
                                        .result = takes ? Errc::Unreachable : Errc::Ok,
                                        .text = "",
                                        .ends = std::vector(takes ? 0 : 1, ends)});
  }
}

Bytes HostileWorld::well_formed(Input& input) {
  switch (const std::uint32_t kind = input.below(18); kind) {
    case 0:
    case 1: return connector_frame(input, kind);
    case 2: return encode({}, engine::Attach{.paths = peer_paths(input)});
    case 3: return encode({}, engine::Ready{});
    case 4: return encode({}, engine::Refuse{.reason = Errc::System, .text = "no"});
    case 5: return encode({}, engine::Bye{});
    case 12:
    case 13:
    case 14:
    case 15:
    case 16:
    case 17: return path_frame(input, kind - 12);
    default: return channel_frame(input, (kind - 6) % 5);
  }
}

void HostileWorld::number(MemoryPlane::Event& event, MemoryPlane::Line& line) {
  event.header.link = line.link;
  event.header.sequence = ++line.sequence;
  plane_->numbers[line.link] = line.sequence;
}

// Claims a link that the peer has, or has had: as its connector, as its acceptor, or in answer to
// the engine's own claim.
void HostileWorld::claim(ConnectionId id, Input& input) {
  MemoryPlane::Line& line = plane_->lines.at(id);
  MemoryPlane::Event event{.id = id};
  const std::uint32_t kind = input.below(4);
  const std::uint32_t attempt = input.below(16);
  Bytes frame = encode({}, engine::Resumed{});
  if (kind == 0)
    frame = encode(
        {}, engine::Resume{
                {.connector_context = {3}, .acceptor_context = context_id_, .attempt = attempt}});
  if (kind == 1)
    frame = encode(
        {}, engine::Summon{
                {.connector_context = context_id_, .acceptor_context = {2}, .attempt = attempt}});
  if (kind == 2) frame = encode({}, engine::Acknowledge{});
  std::uint16_t version = 0;
  event.header = *engine::decode_header(frame.data(), frame.size(), &version);
  if (kind == 1 && !line.dialed && !plane_->numbers.empty()) {
    line.link = std::next(plane_->numbers.begin(),
                          input.below(static_cast<std::uint32_t>(plane_->numbers.size())))
                    ->first;
  }
  line.sequence = plane_->numbers[line.link];
  event.header.link = line.link;
  event.header.acknowledged = input.below(8) == 7 ? input.u8() : 0;
  event.body.assign(frame.begin() + engine::kFrameHeaderBytes, frame.end());
  plane_->push(std::move(event));
  turn();
}

void HostileWorld::say_well(Input& input) {
  const ConnectionId id = some_line(input);
  const auto line = plane_->lines.find(id);
  if (line == plane_->lines.end()) return;
  const Bytes frame = well_formed(input);
  std::uint16_t version = 0;
  const Result<engine::FrameHeader> header =
      engine::decode_header(frame.data(), frame.size(), &version);
  expect(header.ok(), "a frame that we do not read");
  MemoryPlane::Event event{.id = id,
                           .header = *header,
                           .body = Bytes(frame.begin() + engine::kFrameHeaderBytes, frame.end())};
  const std::uint8_t odd = input.u8();
  if (odd > 18 && odd < 40) return claim(id, input);
  number(event, line->second);
  if (odd < 16 && !event.body.empty()) {
    event.body[input.take<std::uint16_t>() % event.body.size()] =
        static_cast<std::byte>(input.u8());
  } else if (odd == 16) {
    event.header.link[0] = 99;
  } else if (odd == 17) {
    event.header.sequence = input.u8();
  } else if (odd == 18) {
    event.header.acknowledged = input.u8();
  }
  plane_->push(std::move(event));
  turn();
}

void HostileWorld::say_anything(Input& input) {
  const ConnectionId id = some_line(input);
  const auto line = plane_->lines.find(id);
  if (line == plane_->lines.end()) return;
  MemoryPlane::Event event{.id = id};
  event.header.type =
      static_cast<MessageType>(1 + input.below(static_cast<std::uint32_t>(MessageType::End) - 1));
  number(event, line->second);
  const std::span<const std::byte> body = std::as_bytes(input.bytes(input.u8()));
  event.body.assign(body.begin(), body.end());
  event.header.body_bytes = static_cast<std::uint32_t>(event.body.size());
  plane_->push(std::move(event));
  turn();
}

// Opens the link and the channels as a peer that keeps to the protocol does.
void HostileWorld::bring_up() {
  const auto hand_over = [this](ConnectionId id, const Bytes& frame) {
    MemoryPlane::Line& line = plane_->lines.at(id);
    std::uint16_t version = 0;
    MemoryPlane::Event event{
        .id = id, .header = *engine::decode_header(frame.data(), frame.size(), &version)};
    event.body.assign(frame.begin() + engine::kFrameHeaderBytes, frame.end());
    number(event, line);
    plane_->push(std::move(event));
    turn();
  };
  Input none(nullptr, 0);
  const ConnectionId from = plane_->arrive();
  plane_->lines.at(from).link = {1};
  hand_over(from, connector_frame(none, 0));
  hand_over(from, encode({}, engine::Attach{.paths = peer_paths(none)}));
  hand_over(from, channel_frame(none, 0));
  accept(none);
  connect(none);
  const ConnectionId to = std::prev(plane_->lines.end())->first;
  plane_->push({.kind = MemoryPlane::Event::Kind::Dialed, .id = to});
  turn();
  hand_over(to, connector_frame(none, 1));
  hand_over(to, encode({}, engine::Ready{}));
  hand_over(to, channel_frame(none, 1));
  Input again(nullptr, 0);
  const Result<Channel*> channel = host_.engine->connect(*context_, 0, peer_handle_);
  if (channel.ok()) adopt(*channel);
  expect(channels_.size() == 2, "an honest peer that gets no channels");
}

}  // namespace mesh::fuzz

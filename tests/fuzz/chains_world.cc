#include "tests/fuzz/chains_world.h"

#include "engine/control/relay_frames.h"
#include "engine/link/link_setup.h"
#include "tests/fuzz/quiet_log.h"

namespace mesh::fuzz {

using engine::Bytes, engine::ConnectionId, engine::MessageType;

namespace {
constexpr int kRelayBytes = 2 << 20;

std::vector<engine::WireHost> two_hosts() {
  std::vector<engine::WireHost> hosts;
  for (const std::uint8_t subnet : {std::uint8_t{1}, std::uint8_t{2}}) {
    engine::WireHost& host = hosts.emplace_back();
    host.ticket = {static_cast<std::uint8_t>(10 + subnet)};
    host.name = "m";
    host.port = 4711;
    host.addresses = {*SocketAddress::from_text("127.0.0.2")};
    host.rails = {played_rail(subnet, 9), played_rail(3, 9)};
  }
  return hosts;
}
}  // namespace

const std::vector<engine::WireHost>& known_hosts() {
  static const std::vector<engine::WireHost> kHosts = two_hosts();
  return kHosts;
}

ChainsWorld::ChainsWorld() {
  settled.settings.prefix_len = 24;
  settled.settings.relay_bytes = kRelayBytes;
  settled.provider = &verbs_;
  settled.threading = Threading::Manual;
  auto found = verbs::discover(verbs_, settled.settings);
  expect(found.ok(), "no rails");
  rails_ = std::move(*found);
  engine::LinkHost& host = *this;
  client_ = std::make_unique<engine::RelayClient>(host, [] { return known_hosts(); });
  client_->set_ticket(ticket_);
  service_ = std::make_unique<engine::RelayService>(host, [] { return known_hosts(); });
}

ChainsWorld::~ChainsWorld() {
  orders_.clear();
  service_.reset();
  client_.reset();
  expect(verbs_.empty(), "somebody's chains are left on the device");
}

void ChainsWorld::on_dialed(ConnectionId id) {
  if (client_->owns(id)) client_->on_dialed(id);
}
bool ChainsWorld::on_frame(ConnectionId id, const engine::FrameHeader& header,
                           std::span<const std::byte> body) {
  if (client_->owns(id)) return client_->on_frame(id, header, body);
  return service_->on_frame(id, header, body);
}
void ChainsWorld::on_lost(ConnectionId id, Errc, const std::string& text) {
  if (client_->owns(id)) return client_->on_lost(id, text);
  service_->on_lost(id);
}

void ChainsWorld::pass() {
  plane_.poll_once();
  client_->tend();
  service_->tend();
  service_->turn();
  check();
}

// Checks the bounds on what others can make this host hold, whatever they say.
void ChainsWorld::check() const {
  const RelaySnapshot figures = service_->figures();
  expect(figures.ring_bytes <= kRelayBytes, "more rings than NCCL_MESH_RELAY_BYTES allows");
  expect(figures.paths <= engine::kCarriedMax, "more paths than are allowed");
  expect(figures.chains <= figures.paths * (1 + kQpsMax), "more chains than asked for");
}

void ChainsWorld::say(Input& input) {
  if (plane_.lines.empty()) return;
  const auto line =
      std::next(plane_.lines.begin(), input.below(static_cast<std::uint32_t>(plane_.lines.size())));
  const bool asked = line->second.dialed != (input.below(16) == 15);
  const Bytes said = asked ? answer(input, input.below(8)) : frame(input);
  std::uint16_t version = 0;
  const Result<engine::FrameHeader> header =
      engine::decode_header(said.data(), said.size(), &version);
  expect(header.ok(), "a frame that we do not read");
  MemoryPlane::Event event{.id = line->first,
                           .header = *header,
                           .body = Bytes(said.begin() + engine::kFrameHeaderBytes, said.end())};
  const std::uint8_t odd = input.u8();
  if (odd < 16 && !event.body.empty())
    event.body[input.take<std::uint16_t>() % event.body.size()] =
        static_cast<std::byte>(input.u8());
  if (odd == 16) event.body.resize(input.u8());
  plane_.push(std::move(event));
}

// Asks on this host's behalf for a route to a peer on subnet 3 or 4, and for chains over it.
void ChainsWorld::ask(Input& input) {
  if (const std::uint32_t at = input.below(8); at < orders_.size()) {
    engine::RelayedChains& chains = *orders_[at];
    if (chains.step() == engine::RelayedChains::Step::Made && input.below(2) == 1)
      return chains.join(hop(input, false), hop(input, false));
    orders_.erase(orders_.begin() + at);
    return;
  }
  if (orders_.size() == kOrdersMax) return;
  const std::vector<engine::WireRail> own = engine::describe_rails(verbs_, rails_);
  const std::vector<engine::WireRail> peer = {
      played_rail(static_cast<std::uint8_t>(3 + input.below(2)), 7)};
  auto route = client_->search({.own = own, .peer = peer, .hosts = {}}, {.peer = {99}}).route;
  if (!route) return;
  orders_.push_back(client_->ask(
      {.route = std::move(*route),
       .sizes = {.qps = 1 + input.below(3), .sq_depth = 16, .express_bytes = 64, .wr_bytes = 64},
       .changed = [] {}}));
}

void ChainsWorld::play_device(Input& input) {
  const std::uint32_t queue_pair = input.u8();
  switch (input.below(4)) {
    case 0: verbs_.announce(queue_pair, input.u8(), input.take<std::uint16_t>()); return;
    case 1: verbs_.complete(queue_pair, input.below(4), IBV_WC_SUCCESS); return;
    case 2: verbs_.complete(queue_pair, 1, IBV_WC_RETRY_EXC_ERR); return;
    default:
      verbs_.write_anywhere(queue_pair, input.take<std::uint16_t>(), input.take<std::uint64_t>());
  }
}

void ChainsWorld::act(Input& input) {
  switch (input.below(10)) {
    case 0:
      if (plane_.lines.size() < kLinesMax) plane_.arrive();
      break;
    case 1: now_ns_ += std::uint64_t{1'000'000} << input.below(14); break;
    case 2:
      if (!plane_.lines.empty())
        plane_.push({.kind = MemoryPlane::Event::Kind::Lost, .id = plane_.lines.begin()->first});
      break;
    case 3:
      for (const auto& [id, line] : plane_.lines)
        plane_.push({.kind = MemoryPlane::Event::Kind::Dialed, .id = id});
      break;
    case 4: ask(input); break;
    case 5: play_device(input); break;
    default: say(input); break;
  }
  pass();
}

}  // namespace mesh::fuzz

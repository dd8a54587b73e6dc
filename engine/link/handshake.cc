#include "engine/control/handle.h"
#include "engine/engine_impl.h"
#include "engine/link/link_setup.h"
#include "engine/link/path_choice.h"
#include "src/base/log.h"
#include "src/base/random.h"
#include "src/base/secret.h"

#include <algorithm>
#include <bit>
#include <set>

namespace mesh::engine {

namespace {

static_assert(kRailsMax == verbs::kRailsMax, "a rail's index means the same in HELLO as here");

// What a peer may ask for: values outside would break our arithmetic, so they are refused, not
// trimmed.
bool sane(std::uint32_t qps, std::uint32_t rq_depth, std::uint32_t slots) {
  return qps >= 1 && qps <= kQpsMax && rq_depth >= 16 && rq_depth <= 4096 &&
         std::has_single_bit(rq_depth) && slots >= 32 && slots <= kSlotsMax &&
         std::has_single_bit(slots);
}

bool opens_a_link(const FrameHeader& header, std::span<const std::byte> bytes, Hello* hello) {
  return header.sequence == 1 && header.acknowledged == 0 && decode_into(bytes, hello) &&
         sane(hello->qps, hello->rq_depth, hello->slots);
}

bool names_a_listener(const Hello& hello, const Context& context) {
  return std::any_of(
      context.listeners.begin(), context.listeners.end(), [&hello](const auto& listener) {
        return std::any_of(
            hello.listeners.begin(), hello.listeners.end(),
            [&listener](const Id128& nonce) { return same_secret(nonce, listener->nonce); });
      });
}
}  // namespace

std::vector<WireRail> EngineImpl::wire_rails() const {
  std::vector<WireRail> rails;
  for (const verbs::Rail& rail : rails_) rails.push_back(describe_rail(rail));
  return rails;
}

Link* EngineImpl::find_link(ConnectionId id) {
  for (const auto& context : contexts_) {
    for (const auto& link : context->links) {
      if (link->connection() == id) return link.get();
    }
  }
  return nullptr;
}

void EngineImpl::refuse(ConnectionId id, const Id128& link, const Refuse& body) {
  if (stranger_lines_.take(clock_.now_ns())) {
    LOG_WARN("{}: refused: {}{}", plane_->peer_name(id), body.text, stranger_lines_.rest());
  }
  plane_->send(id, encode(FrameHeader{.sequence = 1, .link = link}, body));
  plane_->close(id);
}

void EngineImpl::greet(ConnectionId id) {
  if (Link* const lost = find_redial(id); lost != nullptr) return lost->redial().on_dialed();
  Link* const link = find_link(id);
  if (link == nullptr || link->state() != LinkState::Dialing) return;
  if (link->openings().empty()) return link->take_down(Errc::PeerClosed);
  plane_->identify(id);
  link->source = plane_->peer_address(id);
  enter(*link, LinkState::AwaitWelcome);
  std::vector<Id128> listeners;
  for (PendingConnect* const stage : link->openings().waiting()) {
    stage->named = listeners.size() < kHelloListenersMax;
    if (stage->named) listeners.push_back(stage->listener);
  }
  link->send(Hello{.connector_context = link->context().id,
                   .acceptor_context = link->identity().peer_context,
                   .host = options_.provider->host_name(),
                   .qps = options_.policy.qps,
                   .rq_depth = options_.policy.rq_depth,
                   .slots = options_.policy.slots,
                   .preferred_rail = static_cast<std::uint8_t>(link->rail_wanted),
                   .rails = wire_rails(),
                   .control_port = plane_->port(),
                   .control_addresses = portable_addresses(plane_->addresses()),
                   .listeners = std::move(listeners)});
}

bool EngineImpl::take_frame(ConnectionId id, const FrameHeader& header,
                            std::span<const std::byte> body) {
  if (Link* const lost = find_redial(id); lost != nullptr)
    return lost->redial().on_frame(header, body);
  Link* const link = find_link(id);
  if (link == nullptr) return on_stranger(id, header, body);
  if (!same_secret(header.link, link->identity().id)) {
    return link->complain("a control message for another link");
  }
  const Verdict verdict = link->conversation().take(header);
  if (verdict == Verdict::Repeated) return true;
  if (verdict == Verdict::Broken) {
    link->complain(fmt::format("message {} after {}, which acknowledges {} of {}", header.sequence,
                               link->conversation().handled(), header.acknowledged,
                               link->conversation().said()));
  }
  if (verdict == Verdict::New && on_link_frame(*link, header, body)) {
    link->acknowledge();
  } else {
    link->take_down(Errc::Protocol);
  }
  return true;  // take_down closed the connection in good order
}

bool EngineImpl::on_stranger(ConnectionId id, const FrameHeader& header,
                             std::span<const std::byte> bytes) {
  Resume resume;
  Summon summon;
  if (header.type == MessageType::Hello) return on_hello(id, header, bytes);
  if (header.type == MessageType::Resume && decode_into(bytes, &resume))
    return on_resume(id, header, resume);
  return header.type == MessageType::Summon && decode_into(bytes, &summon) &&
         on_summon(id, header, summon);
}

bool EngineImpl::on_hello(ConnectionId id, const FrameHeader& header,
                          std::span<const std::byte> bytes) {
  Hello hello;
  if (!opens_a_link(header, bytes, &hello)) {
    if (stranger_lines_.take(clock_.now_ns())) {
      LOG_WARN("{}: a malformed hello; connection dropped{}", plane_->peer_name(id),
               stranger_lines_.rest());
    }
    return false;
  }
  const auto context = std::find_if(contexts_.begin(), contexts_.end(), [&hello](const auto& each) {
    return same_secret(each->id, hello.acceptor_context);
  });
  std::string refusal;
  if (context == contexts_.end() || (*context)->closing) {
    refusal = fmt::format("host {}: the communicator asked for has ended",
                          options_.provider->host_name());
    refuse(id, header.link, {.reason = Errc::PeerClosed, .text = refusal});
    return true;
  }
  if (!names_a_listener(hello, **context)) {
    refusal =
        fmt::format("host {}: the listener asked for was closed", options_.provider->host_name());
    refuse(id, header.link, {.reason = Errc::PeerClosed, .text = refusal});
    return true;
  }
  std::vector<WirePath> paths = choose_paths(hello, wire_rails());
  if (paths.empty()) {
    refusal = fmt::format("hosts {} and {} share no subnet: {}", hello.host,
                          options_.provider->host_name(), no_path_text(hello, wire_rails()));
    refuse(id, header.link, {.reason = Errc::Unreachable, .text = refusal});
    return true;
  }
  if (!make_room(hello.listeners)) {
    turn_away(id, header.link);
    return true;
  }
  LinkIdentity identity{.role = LinkRole::Acceptor,
                        .id = header.link,
                        .peer_context = hello.connector_context,
                        .peer_host = hello.host};
  Link& link = *(*context)->links.emplace_back(
      std::make_unique<Link>(services_, **context, std::move(identity)));
  link.set_connection(id);  // at once, so that whatever follows can be undone by it
  plane_->identify(id);
  link.source = plane_->peer_address(id);
  link.listeners = hello.listeners;
  link.conversation().take(header);
  link.redial().set_port(ways_back(std::move(hello.control_addresses), link.source),
                         hello.control_port);
  link.redial().note_address();
  link.peer_rails = std::move(hello.rails);
  welcome(link, hello, std::move(paths));
  return true;
}

// The acceptor's queue pairs, and the word of them.
void EngineImpl::welcome(Link& link, const Hello& hello, std::vector<WirePath> paths) {
  enter(link, LinkState::AwaitAttach);
  link.psn = static_cast<std::uint32_t>(random_u64() & 0xffffff);
  TransferPolicy policy = options_.policy;
  policy.qps = std::min(policy.qps, hello.qps);
  policy.rq_depth = std::min(policy.rq_depth, hello.rq_depth);
  policy.slots = std::min(policy.slots, hello.slots);
  if (!build_link(link, policy, paths)) {
    refuse(link.connection(), link.identity().id,
           {.reason = Errc::System,
            .text = fmt::format("host {} could not make its queue pairs",
                                options_.provider->host_name())});
    return link.take_down(Errc::System);
  }
  for (std::uint32_t i = 0; i < paths.size(); ++i) {
    const WirePath ours = describe_path(link.peer_link().path(i), link.psn, {});
    paths[i].qpn = ours.qpn;
    paths[i].psn = ours.psn;
  }
  link.send(Welcome{.host = options_.provider->host_name(),
                    .qps = policy.qps,
                    .rq_depth = policy.rq_depth,
                    .slots = policy.slots,
                    .rails = wire_rails(),
                    .paths = paths});
}

bool EngineImpl::build_link(Link& link, const TransferPolicy& policy,
                            const std::vector<WirePath>& paths) {
  link.set_peer_link(std::make_unique<PeerLink>(
      link.context().loop, static_cast<ChannelOwner&>(*this), link.identity(), policy));
  std::vector<Lane*> lanes;
  for (const WirePath& path : paths) {
    const bool connector = link.connector();
    const std::uint32_t peer_rail = connector ? path.acceptor_rail : path.connector_rail;
    const WireRail& peer = link.peer_rails[peer_rail];
    Lane& lane = *link.context().loop.lanes[connector ? path.connector_rail : path.acceptor_rail];
    const std::uint32_t own_address = connector ? path.connector_address : path.acceptor_address;
    const PathEnds ends{.own_address = own_address,
                        .peer_rail = peer_rail,
                        .peer_address = connector ? path.acceptor_address : path.connector_address,
                        .peer_speed_mbps = peer.speed_mbps};
    std::string name =
        fmt::format("{} {} -> {} {}", lane.name(),
                    address_text(describe_rail(lane.rail()).addresses[ends.own_address]), peer.name,
                    address_text(peer.addresses[ends.peer_address]));
    lanes.push_back(&lane);
    if (!link.peer_link().add_path(lane, ends, std::move(name)).ok()) return false;
  }
  link.peer_link().order_paths();
  link.repairs.resize(link.peer_link().path_count());
  const std::size_t bytes = link.connector()
                                ? policy.slots * credit_bytes(link.peer_link().path_count())
                                : policy.slots * sizeof(Record);
  link.peer_link().memory().configure(bytes, std::move(lanes));
  return true;
}

bool EngineImpl::on_link_frame(Link& link, const FrameHeader& header,
                               std::span<const std::byte> bytes) {
  const auto read = [&]<typename Body>(Body* body, bool expected) {
    if (expected && (header.sequence == 0) == is_aside(header.type) && decode_into(bytes, body))
      return true;
    const int type = static_cast<int>(header.type);
    return link.complain(
        fmt::format("a control message (type {}) that is malformed or out of order", type));
  };
  const auto ours = [&]<typename Body>(bool (EngineImpl::*handler)(Link&, const Body&),
                                       bool expected) {
    Body body;
    return read(&body, expected) && (this->*handler)(link, body);
  };
  const auto handle = [&]<typename Part, typename Body>(
                          Part& part, bool (Part::*handler)(const Body&), bool expected) {
    Body body;
    return read(&body, expected) && (part.*handler)(body);
  };
  const LinkState state = link.state();
  const bool up = link.has_peer_link() && state != LinkState::AwaitWelcome &&
                  state != LinkState::AwaitAttach && state != LinkState::Connecting;
  Acknowledge nothing;
  switch (header.type) {
    case MessageType::Hello: return true;  // said again
    case MessageType::Welcome:
      return ours(&EngineImpl::on_welcome, state == LinkState::AwaitWelcome);
    case MessageType::Attach: return ours(&EngineImpl::on_attach, state == LinkState::AwaitAttach);
    case MessageType::Ready: return ours(&EngineImpl::on_ready, state == LinkState::AwaitReady);
    case MessageType::Refuse: return ours(&EngineImpl::on_refuse, true);
    case MessageType::Open:
      return handle(link.openings(), &Openings::on_open, up && !link.connector());
    case MessageType::Opened:
      return handle(link.openings(), &Openings::on_opened, up && link.connector());
    case MessageType::Revoke: return handle(link.farewell(), &Farewell::on_revoke, up);
    case MessageType::Revoked: return handle(link.farewell(), &Farewell::on_revoked, up);
    case MessageType::Close: return handle(link.farewell(), &Farewell::on_close, up);
    case MessageType::Bye: return handle(link.farewell(), &Farewell::on_bye, up);
    case MessageType::Fence: return ours(&EngineImpl::on_fence, up);
    case MessageType::Reopen: return ours(&EngineImpl::on_reopen, up && !link.connector());
    case MessageType::Reopened: return ours(&EngineImpl::on_reopened, up && link.connector());
    case MessageType::PathUp: return ours(&EngineImpl::on_path_up, up && !link.connector());
    case MessageType::Acknowledge: return read(&nothing, true);  // its header was all
    case MessageType::Resume:
    case MessageType::Resumed:
    case MessageType::Summon: return read(&nothing, false);  // only first on a connection
  }
  return false;
}

bool EngineImpl::on_welcome(Link& link, const Welcome& body) {
  const auto valid = [&](const WirePath& path) {
    return path.connector_rail < rails_.size() &&
           path.connector_address < rails_[path.connector_rail].gids.size() &&
           path.acceptor_rail < body.rails.size() &&
           path.acceptor_address < body.rails[path.acceptor_rail].addresses.size() &&
           path.qpn.size() == 1 + body.qps;
  };
  if (!sane(body.qps, body.rq_depth, body.slots) || body.qps > options_.policy.qps ||
      body.slots > options_.policy.slots || body.rq_depth > options_.policy.rq_depth ||
      body.paths.empty() || !std::all_of(body.paths.begin(), body.paths.end(), valid)) {
    LOG_WARN("peer {}: its welcome does not fit what was asked for; connection dropped", body.host);
    return false;
  }
  link.name_peer(body.host);
  link.peer_rails = body.rails;
  TransferPolicy policy = options_.policy;
  policy.qps = body.qps;
  policy.rq_depth = body.rq_depth;
  policy.slots = body.slots;
  if (!build_link(link, policy, body.paths)) return false;
  const std::size_t counters_bytes = body.paths.size() * (1 + policy.qps) * sizeof(std::uint64_t);
  const Result<LinkPlace> counters = link.peer_link().memory().counters(counters_bytes);
  if (!counters.ok()) return false;
  link.counters = *counters;
  bring_up(link, body.paths, {});
  return true;
}

bool EngineImpl::some_path_is_left(const Link& link, const std::vector<std::uint8_t>& down) {
  const std::uint32_t paths = link.peer_link().path_count();
  const bool known =
      std::all_of(down.begin(), down.end(), [paths](std::uint8_t index) { return index < paths; });
  if (known && std::set<std::uint8_t>(down.begin(), down.end()).size() < paths) return true;
  return link.complain(
      fmt::format("says that {} of {} paths cannot be brought up", down.size(), paths));
}

bool EngineImpl::on_attach(Link& link, const Attach& body) {
  if (body.paths.size() != link.peer_link().path_count()) {
    return link.complain(fmt::format("attaches {} paths, {} were offered", body.paths.size(),
                                     link.peer_link().path_count()));
  }
  if (!some_path_is_left(link, body.down)) return false;
  bring_up(link, body.paths, body.down);
  return true;
}

bool EngineImpl::on_ready(Link& link, const Ready& body) {
  if (!some_path_is_left(link, body.down)) return false;
  leave_out(link, body.down);
  link.set_state(LinkState::Up);
  link.redial().note_address();
  link.announce();
  link.openings().open_all();
  return true;
}

bool EngineImpl::on_refuse(Link& link, const Refuse& body) {
  if (dials_anew(link, body)) return true;
  // Both ends of a broken link tell each other; whoever has said why already need not say it twice.
  const bool said = link.failure() != Errc::Ok;
  if (said) {
    LOG_INFO("peer {}: {}", link.connection_name(), body.text);
  } else if (link.may_cause_lines()) {
    LOG_WARN("peer {}: {}", link.connection_name(), body.text);
  }
  // Where all the listeners are closed that HELLO named, the connects to others begin anew.
  if (link.state() == LinkState::AwaitWelcome && body.reason == Errc::PeerClosed) {
    link.openings().fail_named(body.reason);
    if (!link.openings().empty()) dial_anew(link, 0);
  }
  link.take_down(body.reason);
  return true;
}

}  // namespace mesh::engine

#include "engine/link/link.h"

#include "engine/link/announce.h"
#include "engine/link/context.h"
#include "engine/link/peer_words.h"
#include "engine/link/relay/known_cables.h"
#include "engine/link/test_hooks.h"
#include "src/base/held_locks.h"
#include "src/base/log.h"
#include "src/base/random.h"
#include "src/base/room.h"
#include "src/base/timeouts.h"

#include <algorithm>
#include <new>
#include <utility>

namespace mesh::engine {

Link::Link(LinkHost& host, Context& context, LinkIdentity identity)
    : LinkCore(host, context, std::move(identity)) {
  touch();
}

Link::~Link() {
  host_.index().remove(connection_);
  host_.index().remove(redial_.connection());
  if (peer_link_) host_.index().remove(*peer_link_);
  if (listed_) context_.restless.remove(*this);
  if (listed_idle_) context_.idle.remove(*this);
  drop_bring_ups([](const BringUp&) { return true; });
}

void Link::set_peer_link(std::unique_ptr<PeerLink> made) {
  CHECK(peer_link_ == nullptr);  // channels and parts rely on it as long as the link lives
  peer_link_ = std::move(made);
  host_.index().add(*peer_link_, *this);
  repair_.begin();
}

WireHost Link::peer_as_host() const {
  // Two ports over which a path has carried are on one cable, whatever datagrams tell.
  topo::CableProof cables = terms.cables;
  if (host_.cables() != nullptr) cables.add_met(host_.cables()->met_with(terms.peer_ticket));
  return {.ticket = terms.peer_ticket,
          .name = identity_.peer_host,
          .host_id = terms.peer_host_id,
          .port = port.port,
          .addresses = connector() ? port.addresses : terms.peer_addresses,
          .rails = terms.peer_rails,
          .cables = told_cables(cables)};
}

// ---- Connects that wait.

void Link::open_when_up(PendingConnect& stage) {
  if (state_ == LinkState::Up && !handshake_.holds_channels()) openings_.open(stage);
}

void Link::open_channels() {
  announce(*this);
  openings_.open_all();
}

// Returns a new link to the peer's context. It does not dial yet.
Link& Link::add_sibling(const AskedRails& asked) const {
  Link& sibling = context_.add_connector(identity_.peer_context, asked);
  sibling.name_peer(identity_.peer_host);
  sibling.port = {.addresses = port.addresses, .port = port.port};
  return sibling;
}

// The peer's rails have become known: connects that other paths carry wait for a link of their own.
void Link::distribute_connects() {
  const PathKey own = handshake_.key();
  const std::vector<PendingConnect*> stages = waiting;
  for (PendingConnect* const stage : stages) {
    if (handshake_.key_for(stage->asked) == own) continue;
    Link* other = context_.connector_to(identity_.peer_context, stage->asked);
    if (other == nullptr) {
      other = &add_sibling(stage->asked);
      host_.tend_soon();  // the new link dials then
    }
    CHECK(other != this && stage->state == StageState::Waiting);
    other->waiting.push_back(stage);
    std::erase(waiting, stage);
    stage->link = other;
    stage->named = false;
    other->open_when_up(*stage);
  }
}

// Moves the connects that wait for this link to a new link, which dials after the pause.
void Link::dial_anew(const Redialing& anew) {
  CHECK(connector() && !has_carried() && !waiting.empty());
  Link& next = add_sibling(waiting.front()->asked);
  next.handshake_.dial_as(anew);
  next.waiting.swap(waiting);
  for (PendingConnect* const stage : next.waiting) stage->link = &next;
  take_down(Errc::Exhausted);
}

bool Link::leave_list() noexcept {
  listed_ = restless_;
  return !listed_;
}

bool Link::leave_idle() noexcept {
  listed_idle_ = carries_nothing();
  return !listed_idle_;
}

// ---- Frames.

bool Link::on_frame(const FrameHeader& header, std::span<const std::byte> bytes) {
  if (!same_secret(header.link, identity_.id)) {
    return complain("a control message for another link");
  }
  const Verdict verdict = conversation_.take(header);
  if (verdict == Verdict::Repeated) return true;
  if (verdict == Verdict::Broken) {
    complain(fmt::format("message {} after {}, which acknowledges {} of {}", header.sequence,
                         conversation_.handled(), header.acknowledged, conversation_.said()));
  }
  if (verdict == Verdict::Broken || !dispatch(header, bytes)) {
    send(Refuse{.reason = Errc::Protocol,
                .text = fmt::format("host {}: its peer sent a control message that is malformed or "
                                    "out of order; it ends the link",
                                    host_.options().provider->host_name())});
    take_down(Errc::Protocol);
  } else if (conversation_.owes_acknowledgement()) {
    acknowledge();
  }
  return true;  // take_down closed the connection in good order
}

// Passes a frame to its part. Returns false if the frame may not come in this state.
bool Link::dispatch(const FrameHeader& header, std::span<const std::byte> bytes) {
  if (header.type == MessageType::Hello) return true;  // a repeated HELLO
  bool fits = false;
  const bool go_on = visit_frame(LinkFrames{}, header.type, [&](auto body) {
    const FrameKind& kind = body.kKind;
    fits = may_come(kind) && (header.sequence == 0) == (kind.when == When::Aside) &&
           decode_into(bytes, &body);
    return fits && hand_over(body);
  });
  return fits ? go_on
              : complain(fmt::format("a control message ({}) that is malformed or out of order",
                                     frame_name(header.type)));
}

bool Link::may_come(const FrameKind& kind) const noexcept {
  switch (kind.when) {
    case When::Shake:
      return (state_ == LinkState::AwaitWelcome && kind.type == MessageType::Welcome) ||
             (state_ == LinkState::AwaitAttach && kind.type == MessageType::Attach) ||
             (state_ == LinkState::AwaitReady && kind.type == MessageType::Ready);
    case When::Up:
      return has_peer_link() && state_ != LinkState::AwaitWelcome && state_ != LinkState::Making &&
             state_ != LinkState::AwaitAttach && state_ != LinkState::Connecting &&
             (kind.by == By::Either || (kind.by == By::Acceptor) == connector());
    case When::Always:
    case When::Aside: return true;
    case When::First:
    case When::Relay: break;
  }
  return false;
}

// Passes a frame to the part that has an on() for it.
template <typename Body>
bool Link::hand_over(const Body& body) {
  if constexpr (requires { on(body); }) {
    return on(body);
  } else if constexpr (requires { handshake_.on(body); }) {
    return handshake_.on(body);
  } else if constexpr (requires { openings_.on(body); }) {
    return openings_.on(body);
  } else if constexpr (requires { repair_.on(body); }) {
    return repair_.on(body);
  } else if constexpr (requires { farewell_.on(body); }) {
    return farewell_.on(body);
  } else if constexpr (requires { widening_.on(body); }) {
    return widening_.on(body);
  } else if constexpr (requires { recabling_.on(body); }) {
    return recabling_.on(body);
  } else {
    constexpr When kWhen = Body::kKind.when;  // an Acknowledge says all in its header
    static_assert(kWhen == When::First || kWhen == When::Aside, "no part takes this frame");
    return true;
  }
}

bool Link::on(const Open& body) {
  if (state_ != LinkState::Down) farewell_.reuse_index(body.channel);
  return openings_.on(body);
}

bool Link::on(const CardKeys& body) {
  if (state_ != LinkState::Up) return openings_.on(body);
  repair_.tend_lost();
  if (!openings_.on(body)) return false;
  const ProgressLoop::Guard guard(context().loop);
  for (const Path& path : peer_link().paths().all())
    if (path.ends.peer_rail == body.rail) repair_.try_now(path.index);
  return true;
}

bool Link::memory_rests(const DeviceContext& device) const noexcept {
  const bool rises = std::any_of(bring_ups_.begin(), bring_ups_.end(),
                                 [&device](const auto& each) { return each->needs(device); });
  return !rises && !openings_.growing() &&
         (!has_peer_link() || !peer_link().memory().is_late(device));
}

// Devices that were late have the link's memory now, so paths may be opened on them.
void Link::tend_late_memory() {
  if (!has_peer_link() || state_ == LinkState::Down || bring_up() != nullptr || openings_.growing())
    return;
  for (DeviceContext* const device : peer_link().memory().take_late()) {
    tell_card_keys(*device);
    LOG_DETAIL("peer {}: {} stands by from now on", identity_.peer_host, device->name());
    const ProgressLoop::Guard guard(context().loop);
    for (const Path& path : peer_link().paths().all())
      if (path.device == device) repair_.try_now(path.index);
  }
}

void Link::tell_port_up(std::uint32_t rail) {
  if (connector() || state_ != LinkState::Up) return;
  bool awaited = false;
  {
    const ProgressLoop::Guard guard(context().loop);
    for (const Path& path : peer_link().paths().all()) {
      const PathState state = path.health.state;
      const bool lost = state == PathState::Down || state == PathState::Quarantined;
      awaited |= lost && (path.rail == rail || path.ends.is_place());
    }
  }
  if (awaited) send(PortUp{.rail = static_cast<std::uint8_t>(rail)});
}

void Link::tell_card_keys(DeviceContext& device) {
  if (!has_peer_link()) return;
  LinkMemory& memory = peer_link().memory();
  const std::vector<LinkMemory::KeyRun> keys = memory.keys_on(device);
  if (keys.empty()) return;
  if (connector()) terms.window_words.rkeys = memory.first_keys();
  if (state_ != LinkState::Up) return;
  repair_.pay_fences();  // the peer takes keys of paths that are fenced
  CardKeys told{.rail = static_cast<std::uint8_t>(device.index()), .keys = {}};
  for (const LinkMemory::KeyRun& run : keys) {
    if (told.keys.size() == kKeyRunsMax) {
      told.behind = run.first;
      send(std::exchange(told, {.rail = told.rail, .keys = {}}));
    }
    told.keys.push_back({.first = run.first, .rkey = run.rkey});
  }
  send(told);
}

bool Link::on(const Close& body) { return openings_.withdraw(body.channel) || farewell_.on(body); }

// An exception, which means that no memory is left, ends this link only.
bool Link::tend() noexcept {
  try {
    if (unsaid_ && state_ != LinkState::Down) throw std::bad_alloc();
    const bool again = tend_parts();
    if (again || !at_rest()) {
      touch();
    } else {
      restless_ = false;
    }
    return again;
  } catch (const std::exception& error) {
    end_for_memory(error.what());
    return true;
  }
}

// Returns true if the link is up and well, or waits for the peer or for its queue pairs: only
// frames, deadlines, calls, its loop and its bring-up can change that.
bool Link::at_rest() const noexcept {
  const bool is_over = std::any_of(bring_ups_.begin(), bring_ups_.end(),
                                   [](const auto& each) { return each->over(); });
  const bool rises = !bring_ups_.empty() && !is_over;
  const bool rests = state_ == LinkState::Up || state_ == LinkState::ByeSent ||
                     state_ == LinkState::AwaitWelcome || state_ == LinkState::AwaitAttach ||
                     state_ == LinkState::AwaitReady || (rises && state_ != LinkState::Down);
  if (!rests || is_over || openings_.growing() || failure() != Errc::Ok) return false;
  if (!peer_link_) return true;
  if (bring_up() == nullptr && peer_link_->memory().has_late()) return false;
  const bool wants_path =
      connector() && peer_link_->reach().lazy() && peer_link_->reach().wants_path();
  return peer_link_->paths().all_up() && !wants_path && !widening_.may_begin();
}

// Returns that our end has failed, and why, for the peer. A cause that has a remedy includes it.
std::string Link::end_words(Errc why) const {
  const ProgressLoop::Guard guard(context_.loop);
  const std::string& cause = peer_link_->cause();
  return fmt::format("its end of the link failed: {}", cause.empty() ? errc_name(why) : cause);
}

bool Link::tend_parts() {
  finish_bring_ups();
  tend_late_memory();
  handshake_.tend();
  openings_.tend();
  const bool repairing = repair_.tend();
  widening_.tend();
  recabling_.tend();
  const bool lost = redial_.tend();
  if (const Errc why = failure(); state_ != LinkState::Down && why != Errc::Ok) {
    send(Refuse{.reason = why,
                .text = told_by(host_.options().provider->host_name(), end_words(why))});
    handshake_.fail_named(why);
    take_down(why);
  }
  if (!peer_link_ || bring_up() != nullptr) return false;
  const bool parting = farewell_.tend();
  return lost || repairing || parting;
}

// ---- Bring-up.

void Link::begin_bring_up(BringUp::Order order) {
  order.link = this;
  order.asked_ns = host_.now_ns();
  auto made = std::make_unique<BringUp>(std::move(order));
  CHECK(bring_up() == nullptr && (made->is_of_link() ? bring_ups_.empty() : !rises(made->path())));
  make_room_for(bring_ups_, bring_ups_.size() + 1);
  context_.rising.add(*made);
  BringUp& begun = *bring_ups_.emplace_back(std::move(made));
  touch();
  if (host_.options().threading != Threading::Manual) return;
  {
    const WaitsUnderLocks no_threads;
    begun.run();
  }
  if (begun.makes_only()) finish_bring_ups();
}

void Link::start(BringUp& bring_up) {
  if (bring_up.is_of_link()) handshake_.bring_up_starts();
  context_.rising.started(bring_up);
  bring_up.start(host_.thread_pool(), host_.waker());
}

// Waits for those that run.
template <typename Matches>
void Link::drop_bring_ups(const Matches& matches) noexcept {
  std::erase_if(bring_ups_, [&](const auto& each) {
    if (!matches(*each)) return false;
    context_.rising.remove(*each);
    return true;
  });
}

void Link::finish_bring_ups() {
  const std::uint64_t now_ns = host_.now_ns();
  const TestHooks& hooks = hooks_of(host_.options());
  const std::uint64_t least_ns = hooks.bring_up_ns;
  const auto hangs = [&](const BringUp& each) {
    return hooks.device_hangs && each.reopens() &&
           std::any_of(context_.loop.devices.begin(), context_.loop.devices.end(),
                       [&](const auto& device) {
                         return each.needs(*device) && hooks.device_hangs(*device);
                       });
  };
  for (;;) {
    const auto next = std::find_if(bring_ups_.begin(), bring_ups_.end(), [&](const auto& each) {
      if (each->over() && now_ns < each->asked_ns() + least_ns)
        host_.tend_at(each->asked_ns() + least_ns);
      return each->over() && now_ns >= each->asked_ns() + least_ns && !hangs(*each);
    });
    if (next == bring_ups_.end()) return;
    const std::unique_ptr<BringUp> done = std::move(*next);
    bring_ups_.erase(next);
    context_.rising.remove(*done);
    finish(*done);
  }
}

void Link::finish(BringUp& done) {
  if (state_ == LinkState::Down) {
    const ProgressLoop::Guard guard(context_.loop);
    end_queue_pairs();  // the link was taken down meanwhile
  } else if (done.reopens()) {
    repair_.risen(done);
  } else if (done.widens()) {
    widening_.risen(done);
  } else {
    handshake_.brought_up(done);
  }
}

// ---- The end.

void Link::take_down(Errc why) noexcept {
  if (state_ == LinkState::Down) return;
  state_ = LinkState::Down;
  touch();
  host_.tend_soon();
  for (const auto& each : bring_ups_) each->abandon();
  drop_bring_ups([](const BringUp& each) { return !each.running(); });
  if (peer_link_) {
    const ProgressLoop::Guard guard(context_.loop);
    peer_link_->paths().drain_completions();  // what was announced before the end still counts
    peer_link_->end(why);
    end_queue_pairs();
  }
  repair_.cut_chains();
  openings_.fail_all(why);
  if (why == Errc::Exhausted) context_.unname_listeners(*this);  // the connector dials anew
  context_.fail_named(*this, why);
  drop_connection();
  redial_.stop();
  farewell_.drop();
  recabling_.drop();
  CHECK(connection_ == 0 && waiting.empty() && !redial_.under_way());
}

bool Link::is_reopened(const Path& path) const noexcept {
  return std::any_of(bring_ups_.begin(), bring_ups_.end(), [&path](const auto& each) {
    return each->reopens() && each->path() == path.index;
  });
}

// If a thread is still at work on queue pairs, they end with it. Nothing is sent to those of a
// whole link before READY.
void Link::end_queue_pairs() noexcept {
  CHECK(state_ == LinkState::Down);
  if (bring_up() != nullptr) return;
  for (Path& path : peer_link_->paths().all())
    if (!is_reopened(path)) path.stop();
  if (bring_ups_.empty()) peer_link_->destroy_queue_pairs();
}

void Link::end(Errc why, const std::string& text) {
  farewell_.hurry();  // all that the CLOSEs of the lost peer count is here by now
  // If the connector has not heard our WELCOME, it says HELLO again.
  if (state_ == LinkState::Proving || state_ == LinkState::Making ||
      state_ == LinkState::AwaitAttach)
    context_.lose_named(*this, why, host_.now_ns() + kLostHelloToNextNs);
  const bool is_over = !context_.fail_named(*this, why) && over();
  if (!is_over && may_cause_lines()) {
    const bool first = !has_carried() || host_.peer_log().is_first_end(identity_.peer_host);
    MESH_LOG(first ? LogLevel::Warn : LogLevel::Detail, "peer {} is lost: {}", identity_.peer_host,
             text);
  }
  take_down(is_over ? Errc::PeerClosed : why);
}

void Link::begin_close() {
  if (state_ != LinkState::Up && state_ != LinkState::ByeSent) take_down(Errc::PeerClosed);
  if (!peer_link_) return;
  peer_link_->channels().for_each([this](Channel& channel) { farewell_.begin_close(channel); });
  farewell_.say_bye_if_empty();
}

bool Link::may_be_forgotten() const noexcept {
  return state_ == LinkState::Down && bring_ups_.empty() && !openings_.growing() &&
         waiting.empty() && (!peer_link_ || peer_link_->channels().count() == 0);
}

void Link::cut() {
  take_down(Errc::PeerClosed);
  const bool was_brought_up = !bring_ups_.empty();
  drop_bring_ups([](const BringUp&) { return true; });
  openings_.end_growth();
  if (!peer_link_) return;
  const ProgressLoop::Guard guard(context_.loop);
  if (was_brought_up) end_queue_pairs();
  for (std::uint32_t i = 0; i < peer_link_->channels().index_bound(); ++i) {
    if (peer_link_->channels().find(i) != nullptr) peer_link_->channels().remove(i);
  }
}

void Link::end_for_memory(const char* what) noexcept {
  LOG_WARN("peer {}: {}; its link ends", identity_.peer_host, what);
  take_down(Errc::System);
}

}  // namespace mesh::engine

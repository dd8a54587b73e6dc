#include "engine/link/link.h"

#include "engine/link/context.h"
#include "engine/link/half_open.h"
#include "src/base/log.h"
#include "src/base/secret.h"
#include "src/base/timeouts.h"

#include <new>
#include <utility>

namespace mesh::engine {

Link::Link(LinkHost& host, Context& context, LinkIdentity identity)
    : host_(host), context_(context), identity_(std::move(identity)) {
  context_.restless.reserve_for(context_.links.size() + 1);
  context_.idle.reserve_for(context_.links.size() + 1);
  touch();
}

Link::~Link() {
  host_.index().remove(connection_);
  host_.index().remove(redial_.connection());
  if (peer_link_) host_.index().remove(*peer_link_);
  if (listed_) context_.restless.remove(*this);
  if (listed_idle_) context_.idle.remove(*this);
  take_bring_up();
}

std::uint64_t Link::path_timeout_ns() const noexcept {
  const auto usual_ns =
      static_cast<std::uint64_t>(host_.options().settings.path_timeout_s) * kNsPerSecond;
  const SiteCrossing& crossing = handshake_.crossing();
  return crossing.apart() ? long_path_timeout_ns(usual_ns, crossing.round_trip_ns) : usual_ns;
}

// ---- State.

bool Link::over() const noexcept {
  return !usable() || (peer_link_ && peer_link_->channels().all_ended() && openings_.empty());
}

bool Link::carries_nothing() const noexcept {
  if (connector()) return false;
  if (state_ == LinkState::Making || state_ == LinkState::AwaitAttach ||
      state_ == LinkState::Connecting)
    return true;
  return state_ == LinkState::Up && farewell_.said_every_close();
}

WireHost Link::peer_as_host() const {
  return {.ticket = handshake_.peer_ticket(),
          .name = identity_.peer_host,
          .port = redial_.port(),
          .addresses = connector() ? redial_.addresses() : handshake_.peer_addresses(),
          .rails = handshake_.peer_rails()};
}

// ---- Frames, and the connection that carries them.

void Link::drop_connection() noexcept {
  if (connection_ != 0) host_.plane().close(connection_);
  set_connection(0);
}

void Link::say(Bytes frame) {
  if (connection_ != 0) host_.plane().send(connection_, frame);  // a lost connection reports itself
  conversation_.keep(std::move(frame));
}

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
                .text = fmt::format("host {}: what its peer says does not fit; it ends the link",
                                    host_.options().provider->host_name())});
    take_down(Errc::Protocol);
  } else if (connection_ != 0 && conversation_.owes_acknowledgement()) {
    host_.plane().send(connection_, encode(conversation_.aside(identity_.id), Acknowledge{}));
    conversation_.acknowledged_now();
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
  if constexpr (requires { handshake_.on(body); }) {
    return handshake_.on(body);
  } else if constexpr (requires { openings_.on(body); }) {
    return openings_.on(body);
  } else if constexpr (requires { repair_.on(body); }) {
    return repair_.on(body);
  } else if constexpr (requires { farewell_.on(body); }) {
    return farewell_.on(body);
  } else {
    constexpr When kWhen = Body::kKind.when;  // an Acknowledge says all in its header
    static_assert(kWhen == When::First || kWhen == When::Aside, "no part takes this frame");
    return true;
  }
}

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
  const bool rises = bring_up_ != nullptr && !bring_up_->over();
  const bool rests = state_ == LinkState::Up || state_ == LinkState::ByeSent ||
                     state_ == LinkState::AwaitWelcome || state_ == LinkState::AwaitAttach ||
                     state_ == LinkState::AwaitReady || (rises && state_ != LinkState::Down);
  if (!rests || (bring_up_ != nullptr && !rises) || failure() != Errc::Ok) return false;
  if (!peer_link_) return true;
  const bool wants_path =
      connector() && peer_link_->reach().asleep() && peer_link_->reach().wants_path();
  return peer_link_->paths().all_up() && !wants_path;
}

bool Link::tend_parts() {
  finish_bring_up();
  handshake_.tend();
  const bool repairing = repair_.tend();
  const bool lost = redial_.tend();
  if (const Errc why = failure(); state_ != LinkState::Down && why != Errc::Ok) {
    send(Refuse{.reason = why,
                .text = fmt::format("host {}: its end of the link failed: {}",
                                    host_.options().provider->host_name(), errc_name(why))});
    handshake_.fail_named(why);
    take_down(why);
  }
  if (!peer_link_ || (bring_up_ && !bring_up_->reopens())) return false;
  const bool parting = farewell_.tend();
  return lost || repairing || parting;
}

// ---- Bring-up.

void Link::begin_bring_up(BringUp::Order order) {
  CHECK(bring_up_ == nullptr && order.link == peer_link_.get());
  order.asked_ns = host_.now_ns();
  auto made = std::make_unique<BringUp>(std::move(order));
  context_.rising.add(*this);
  bring_up_ = std::move(made);
  touch();
  if (host_.options().threading != Threading::Manual) return;
  bring_up_->run();
  if (bring_up_->makes_only()) finish_bring_up();
}

void Link::start_bring_up() {
  CHECK(bring_up_ != nullptr);
  handshake_.bring_up_starts();
  context_.rising.started(*this);
  bring_up_->start(host_.waker());
}

std::unique_ptr<BringUp> Link::take_bring_up() noexcept {
  if (bring_up_ != nullptr) context_.rising.remove(*this);
  return std::move(bring_up_);
}

Settings Link::settings() const {
  Settings settings = host_.options().settings;
  const Marking marking = handshake_.marking();
  settings.traffic_class = marking.traffic_class;
  settings.service_level = marking.service_level;
  const SiteCrossing& crossing = handshake_.crossing();
  if (crossing.apart()) settings.timeout = long_ack_timer(settings.timeout, crossing.round_trip_ns);
  return settings;
}

void Link::finish_bring_up() {
  if (!bring_up_ || !bring_up_->over()) return;
  const std::unique_ptr<BringUp> done = take_bring_up();
  if (state_ == LinkState::Down) {
    const ProgressLoop::Guard guard(context_.loop);
    end_queue_pairs();  // the link was taken down meanwhile
  } else if (done->reopens()) {
    repair_.risen(*done);
  } else {
    handshake_.brought_up(*done);
  }
}

// ---- Log lines.

bool Link::may_cause_lines() const {
  return connector() || has_carried() || host_.stranger_lines().take(host_.now_ns());
}

bool Link::complain(const std::string& text) const {
  if (may_cause_lines()) {
    LOG_WARN("peer {}: {}; connection dropped{}", identity_.peer_host, text,
             host_.stranger_lines().rest());
  }
  return false;
}

std::string Link::crossing_text() const {
  const SiteCrossing& crossing = handshake_.crossing();
  if (!crossing.apart()) return {};
  std::uint64_t inflight_bytes = 0;
  for (const Path& path : peer_link().paths().all())
    inflight_bytes = std::max(inflight_bytes, path.inflight_bytes_max);
  std::string text = fmt::format("; from site {} to site {}, round trip {} us", crossing.own,
                                 crossing.peer, crossing.round_trip_ns / 1000);
  if (!connector()) return text;
  return fmt::format("{}, up to {} MiB in flight on a path", text, inflight_bytes >> 20);
}

void Link::announce() const {
  const PeerLink& peer_link = this->peer_link();
  if (peer_link.reach().dormant()) {
    LOG_INFO(
        "{} host {}: {}; what NCCL connects and never uses does no harm, the first message would "
        "fail; NCCL_ALGO=Ring keeps to neighbours, or cable the two hosts",
        connector() ? "sending to" : "receiving from", identity_.peer_host,
        peer_link.reach().why());
    return;
  }
  if (peer_link.reach().all_relayed()) {
    LOG_INFO("{} host {}: {}; the first message opens a path over a host that both have links to",
             connector() ? "sending to" : "receiving from", identity_.peer_host,
             peer_link.reach().why());
    return;
  }
  const TransferPolicy& policy = peer_link.policy();
  std::string paths;
  bool wanted = false;
  for (std::uint32_t i = 0; i < peer_link.paths().count(); ++i) {
    const Path& path = peer_link.paths()[i];
    const bool first_standby = i == peer_link.paths().primary_count();
    const bool beside = peer_link.paths().has_beside() && i == peer_link.paths().direct_count();
    paths += (i == 0          ? ""
              : first_standby ? "; standby: "
              : beside        ? "; beside: "
                              : ", ") +
             path.name;
    if (path.ends.relayed) paths += " over other hosts";
    wanted |= path.tier == 0 && path.rail == handshake_.asked().rail;
  }
  std::size_t queue_pairs = 0;
  for (const auto& lane : context_.loop.lanes) queue_pairs += lane->queue_pair_count();
  LOG_INFO(
      "{} host {}: {}; per path 1 express + {} bulk queue pairs, inline {} B, express to {} B, "
      "stripes from {} B, "
      "1 signal in {}, window {}; {} queue pairs in this communicator{}",
      connector() ? "sending to" : "receiving from", identity_.peer_host, paths, policy.qps,
      policy.inline_bytes, policy.express_bytes, policy.stripe_bytes, policy.signal_interval,
      policy.rq_depth, queue_pairs, crossing_text());
  if (connector() && !wanted) {
    LOG_INFO("device {} does not reach host {}; using {} instead",
             host_.rails()[handshake_.asked().rail].info.name, identity_.peer_host,
             peer_link.paths()[0].lane->name());
  }
}

// ---- The end.

void Link::take_down(Errc why) noexcept {
  if (state_ == LinkState::Down) return;
  state_ = LinkState::Down;
  touch();
  host_.tend_soon();
  if (bring_up_) bring_up_->abandon();
  if (bring_up_ && !bring_up_->running()) take_bring_up();
  const bool one_rises = bring_up_ && bring_up_->reopens();
  if (peer_link_) {
    const ProgressLoop::Guard guard(context_.loop);
    peer_link_->paths().drain_completions();  // what was announced before the end still counts
    peer_link_->end(why);
    // If a thread is still at work on the queue pairs, they end with it. Nothing is sent to them
    // before READY.
    if (!bring_up_) end_queue_pairs();
    if (one_rises) peer_link_->paths().stop_all(&peer_link_->paths()[bring_up_->reopened()]);
  }
  repair_.cut_chains();
  openings_.fail_all(why);
  if (why == Errc::Exhausted) context_.unname_listeners(*this);  // the connector dials anew
  context_.fail_named(*this, why);
  drop_connection();
  redial_.stop();
  farewell_.drop();
  CHECK(connection_ == 0 && openings_.empty() && !redial_.under_way());
}

void Link::end_queue_pairs() noexcept {
  CHECK(state_ == LinkState::Down && bring_up_ == nullptr);  // no thread is at work on them
  peer_link_->paths().stop_all();
  peer_link_->destroy_queue_pairs();
}

void Link::end(Errc why, const std::string& text) {
  farewell_.hurry();  // all that the CLOSEs of the lost peer count is here by now
  // If the connector has not heard our WELCOME, it says HELLO again.
  if (state_ == LinkState::Making || state_ == LinkState::AwaitAttach)
    context_.lose_named(*this, why, host_.now_ns() + kLostHelloToNextNs);
  const bool is_over = !context_.fail_named(*this, why) && over();
  if (!is_over && may_cause_lines()) LOG_WARN("peer {} is lost: {}", identity_.peer_host, text);
  take_down(is_over ? Errc::PeerClosed : why);
}

void Link::begin_close() {
  if (state_ != LinkState::Up && state_ != LinkState::ByeSent) take_down(Errc::PeerClosed);
  if (!peer_link_) return;
  peer_link_->channels().for_each([this](Channel& channel) { farewell_.begin_close(channel); });
  farewell_.say_bye_if_empty();
}

bool Link::may_be_forgotten() const noexcept {
  return state_ == LinkState::Down && !bring_up_ && openings_.empty() &&
         (!peer_link_ || peer_link_->channels().count() == 0);
}

void Link::cut() {
  take_down(Errc::PeerClosed);
  const bool was_brought_up = take_bring_up() != nullptr;
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

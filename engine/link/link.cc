#include "engine/link/link.h"

#include "engine/link/context.h"
#include "src/base/log.h"

#include <utility>

namespace mesh::engine {

std::uint64_t Link::path_timeout_ns() const noexcept {
  return static_cast<std::uint64_t>(host_.options().settings.path_timeout_s) * kNsPerSecond;
}

// ---- How it is.

bool Link::over() const noexcept {
  return !usable() || (peer_link_ && peer_link_->every_channel_ended() && openings_.empty());
}

bool Link::carries_nothing() const noexcept {
  if (connector()) return false;
  if (state_ == LinkState::AwaitAttach || state_ == LinkState::Connecting) return true;
  return state_ == LinkState::Up && farewell_.said_every_close();
}

// ---- What is said.

void Link::drop_connection() noexcept {
  if (connection_ != 0) host_.plane().close(connection_);
  connection_ = 0;
}

void Link::say(Bytes frame) {
  if (connection_ != 0) host_.plane().send(connection_, frame);  // a lost one reports itself
  conversation_.keep(std::move(frame));
}

void Link::acknowledge() {
  if (connection_ == 0 || !conversation_.owes_acknowledgement()) return;
  host_.plane().send(connection_, encode(conversation_.aside(identity_.id), Acknowledge{}));
  conversation_.acknowledged_now();
}

// ---- Lines in the log.

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

void Link::announce() const {
  const PeerLink& peer_link = this->peer_link();
  const TransferPolicy& policy = peer_link.policy();
  std::string paths;
  bool wanted = false;
  for (std::uint32_t i = 0; i < peer_link.path_count(); ++i) {
    paths += (i == 0 ? "" : ", ") + peer_link.path(i).name;
    wanted |= peer_link.path(i).lane->index() == rail_wanted;
  }
  std::size_t queue_pairs = 0;
  for (const auto& lane : context_.loop.lanes) queue_pairs += lane->queue_pair_count();
  LOG_INFO(
      "{} host {}: {}; per path 1 express + {} bulk queue pairs, inline {} B, express to {} B, "
      "stripes from {} B, "
      "1 signal in {}, window {}; {} queue pairs in this communicator",
      connector() ? "sending to" : "receiving from", identity_.peer_host, paths, policy.qps,
      policy.inline_bytes, policy.express_bytes, policy.stripe_bytes, policy.signal_interval,
      policy.rq_depth, queue_pairs);
  if (connector() && !wanted) {
    LOG_INFO("device {} does not reach host {}; using {} instead",
             host_.rails()[rail_wanted].info.name, identity_.peer_host,
             peer_link.path(0).lane->name());
  }
}

// ---- The end.

void Link::take_down(Errc why) noexcept {
  if (state_ == LinkState::Down) return;
  state_ = LinkState::Down;
  host_.tend_soon();
  if (bring_up) bring_up->abandon();
  if (bring_up && !bring_up->running()) bring_up.reset();
  const bool one_rises = bring_up && bring_up->reopens();
  if (peer_link_) {
    const ProgressLoop::Guard guard(context_.loop);
    context_.loop.drain_completions();  // what was announced before the end still counts
    peer_link_->fail(why, "");
    // A thread may still be at work on the queue pairs; then they end with it. Nothing is sent to
    // them before READY.
    if (!bring_up) end_queue_pairs();
    if (one_rises) peer_link_->stop_queue_pairs(&peer_link_->path(bring_up->indices().front()));
  }
  openings_.fail_all(why);
  drop_connection();
  redial_.stop();
  farewell_.drop();
}

void Link::end_queue_pairs() noexcept {
  peer_link_->stop_queue_pairs();
  peer_link_->destroy_queue_pairs();
}

void Link::end(Errc why, const std::string& text) {
  farewell_.hurry();  // the peer said CLOSE before it went: whatever it counted is here by now
  const bool is_over = over();
  if (!is_over) LOG_WARN("peer {} is lost: {}", identity_.peer_host, text);
  take_down(is_over ? Errc::PeerClosed : why);
}

void Link::end_for_memory(const char* what) noexcept {
  LOG_WARN("peer {}: {}; its link ends", identity_.peer_host, what);
  take_down(Errc::System);
}

}  // namespace mesh::engine

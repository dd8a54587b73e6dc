// The loop's part of losing a path and getting it back: which users leave it, what it lost, which
// queue pairs carry that, and how it joins again. The control path (path_repair.h) talks with the
// peer and decides when.
#include "engine/data/peer_link.h"
#include "engine/data/progress_loop_datapath.h"
#include "src/base/check.h"
#include "src/base/log.h"
#include "src/base/probes.h"

#include <algorithm>
#include <cstring>
#include <exception>

namespace mesh::engine {

// Shares everything out anew after the usable paths have changed; what has a queue pair keeps it.
void PeerLink::reroute() {
  DCHECK(loop_.held());
  order_paths();
  for (const auto& channel : channels_) {
    if (!channel) continue;
    channel->choose_express();
    loop_.activate(*channel);
  }
}

// Counts rails with queue pairs, because a peer may write long before it says that the path is up.
// They go with the fence, which has flushed what came over them.
void PeerLink::note_written_rails() noexcept {
  std::uint64_t rails = 0;
  for (const auto& path : paths_) {
    // The peer learns of queue pairs only after the link's memory is on their rail.
    const bool known = std::binary_search(rails_.begin(), rails_.end(), path->rail);
    const bool there = !path->queue_pairs.empty() && path->queue_pairs[0]->verbs() != nullptr;
    if (known && there) rails |= std::uint64_t{1} << path->rail;
  }
  written_rails_.store(rails, std::memory_order_release);
}

void PeerLink::quarantine(Path& path, const std::string& cause) noexcept {
  DCHECK(loop_.held());
  if (path.health.state != PathState::Up) return;
  path.health.state = PathState::Quarantined;
  paths_away_.fetch_add(1, std::memory_order_release);
  for (const auto& queue_pair : path.queue_pairs) {
    queue_pair->quarantine();
    loop_.forget(*queue_pair);
  }
  path.byte_waiter = nullptr;
  try {
    path.health.last_cause = cause;
    reroute();
    for (const auto& channel : channels_) {
      if (channel) channel->leave_path(path);
    }
  } catch (const std::exception& error) {
    return fail_for_memory(path, error.what());
  }
  loop_.wake_control();
  if (stands_back(path)) {
    LOG_DETAIL("peer {}: path {} stands by again", identity_.peer_host, path.name);
    return;
  }
  ++path.health.failures;
  loop_.counters.errors.add(1);
  MESH_PROBE3(path_lost, identity_.peer_host.c_str(), path.name.c_str(), cause.c_str());
  // The peer may have taken its end apart if every channel has ended; what was sent is still
  // accounted for.
  const LogLevel level =
      !channels_.empty() && every_channel_ended() ? LogLevel::Info : LogLevel::Warn;
  MESH_LOG(level, "peer {}: path {} is lost: {}; {}", identity_.peer_host, path.text(), cause,
           what_carries_on());
}

std::string PeerLink::what_carries_on() const {
  if (!stalled()) return fmt::format("{} of {} paths carry on", usable_count(), primary_count_);
  return standby_count() == 0 ? "no other path is up, waiting for one"
                              : fmt::format("of {} standby paths one is opened", standby_count());
}

bool PeerLink::fencing() const noexcept {
  return std::any_of(all_.begin(), all_.end(),
                     [](const Path* path) { return path->health.state == PathState::Quarantined; });
}

void PeerLink::stop_path(Path& path) noexcept {
  for (const auto& queue_pair : path.queue_pairs) {
    if (queue_pair->verbs() == nullptr || !queue_pair->started()) continue;
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_ERR;
    const int error = queue_pair->provider().modify_qp(queue_pair->verbs(), &attr, IBV_QP_STATE);
    if (error == 0) {
      queue_pair->set_stopped();
    } else {
      LOG_WARN("{}: cannot stop a queue pair: {}", path.name, std::strerror(error));
    }
  }
}

bool PeerLink::account_lost(Path& path, std::span<const std::uint64_t> taken) {
  DCHECK(loop_.held());
  DCHECK(path.health.state == PathState::Quarantined);
  std::vector<Span> lost;
  if (identity_.role == LinkRole::Connector) {
    if (taken.size() != path.queue_pairs.size()) return false;
    for (std::size_t i = 0; i < taken.size(); ++i) {
      if (!path.queue_pairs[i]->may_have_taken(taken[i])) return false;
    }
    for (std::size_t i = 0; i < taken.size(); ++i)
      path.queue_pairs[i]->account_lost(taken[i], &lost);
  }
  for (const auto& channel : channels_) {
    if (channel) channel->fenced(path);
  }
  for (const Span& span : lost) span.request->channel->replay(span);
  path.health.replayed_stripes += lost.size();
  path.health.state = PathState::Down;
  return true;
}

bool PeerLink::rewrite_credits() noexcept {
  DCHECK(loop_.held());
  bool done = true;
  for (RecvChannel* const receiver : receivers_) {
    if (receiver != nullptr && !receiver->rewrite_credits()) done = false;
  }
  return done;
}

void PeerLink::destroy_path(Path& path) noexcept {
  DCHECK(loop_.held());
  DCHECK(path.health.state != PathState::Up);
  for (const auto& queue_pair : path.queue_pairs) {
    queue_pair->add_to(&path.past);
    loop_.forget(*queue_pair);
    path.lane->destroy(*queue_pair);
    queue_pair->renew();
  }
  note_written_rails();
}

void PeerLink::call(Path& path) {
  DCHECK(loop_.held());
  DCHECK(path.health.state == PathState::Resting);
  path.health.state = PathState::Down;
  paths_away_.fetch_add(1, std::memory_order_release);
}

void PeerLink::let_rest(Path& path) noexcept {
  DCHECK(loop_.held());
  DCHECK(path.health.state == PathState::Down);
  DCHECK(path.tier != 0 || is_beside(path.index));
  stop_path(path);
  destroy_path(path);
  path.health.state = PathState::Resting;
  paths_away_.fetch_sub(1, std::memory_order_release);
}

// Drains only the queues of its own queue pairs: a context of many peers has many queues.
void PeerLink::drain_completions() noexcept {
  DCHECK(loop_.held());
  for (Path* const path : all_) path->lane->drain(path->queue_pairs);
}

void PeerLink::provide_queue_pairs(Path& path) {
  const ProgressLoop::Guard guard(loop_);
  if (!path.queue_pairs.empty()) return;
  path.queue_pairs.reserve(1 + policy_.qps);
  for (std::uint32_t i = 0; i <= policy_.qps; ++i) {
    path.queue_pairs.push_back(std::make_unique<QueuePair>(
        policy_, QueuePairPlace{.link = this, .path = &path, .index = i}));
    if (path.health.state != PathState::Up) path.queue_pairs.back()->renew();
  }
}

Status PeerLink::make_path(Path& path, const std::atomic<bool>* abandoned) {
  for (const auto& queue_pair : path.queue_pairs) {
    if (abandoned != nullptr && abandoned->load(std::memory_order_relaxed)) return Errc::PeerClosed;
    if (const Status status = path.lane->create(
            *queue_pair, {.policy = &policy_, .loop = &loop_, .relayed = path.ends.relayed});
        !status.ok())
      return status;
  }
  const ProgressLoop::Guard guard(loop_);
  note_written_rails();
  std::size_t all = 0;
  for (const auto& each : loop_.lanes) all += each->queue_pair_count();
  loop_.reserve(all);
  return {};
}

std::string black_hole_text(const Path& path) {
  return fmt::format(
      "full packets of {} bytes (the path's MTU) are lost and small ones arrive: some port between "
      "the two has a smaller MTU; raise the MTU of the switches and routers on the way, or lower "
      "that of {} and of its peer",
      path.ends.mtu_bytes, path.lane->name());
}

void PeerLink::probe(Path& path) noexcept {
  DCHECK(loop_.held());
  DCHECK(identity_.role == LinkRole::Connector);
  const bool full = path.probe_target.address != 0 && path.ends.mtu_bytes <= kProbeBytesMax;
  const int error = path.queue_pairs[0]->post_probe(
      path.lane->probe_source(full ? path.ends.mtu_bytes : 0), path.probe_target);
  if (error == 0) return;
  path.health.probe_failed = true;
  if (path.health.state == PathState::Up) on_post_failed(*path.queue_pairs[0], error);
}

void PeerLink::leave_out(Path& path, std::string why) {
  DCHECK(loop_.held());
  path.health.last_cause = std::move(why);
  if (path.health.state == PathState::Up) {
    ++path.health.failures;
    paths_away_.fetch_add(1, std::memory_order_release);
  }
  path.health.state = PathState::Down;  // what its queue pairs flush is no news
  stop_path(path);
  destroy_path(path);
  reroute();
}

void PeerLink::admit(Path& path) {
  DCHECK(loop_.held());
  DCHECK(path.health.state == PathState::Down);
  DCHECK(paths_away_.load(std::memory_order_relaxed) != 0);
  DCHECK(path.inflight_bytes() == 0);
  DCHECK(path.byte_waiter == nullptr);
  path.health.state = PathState::Up;
  paths_away_.fetch_sub(1, std::memory_order_release);
  for (const auto& queue_pair : path.queue_pairs) queue_pair->open();
  MESH_PROBE3(path_back, identity_.peer_host.c_str(), path.name.c_str(), path.health.epoch);
  reroute();
  if (asleep()) wake_up();
  for (Path* const other : all_) {
    if (other->health.state == PathState::Up && stands_back(*other))
      quarantine(*other, "a better path is up");
  }
}

// ---- Links of hosts that no rail joins.

void PeerLink::be_dormant(Lane& any, std::string why) {
  CHECK(paths_.empty() && !dormant());
  const ProgressLoop::Guard guard(loop_);
  nowhere_ = std::make_unique<Path>();
  nowhere_->lane = &any;
  nowhere_->rail = any.index();
  nowhere_->health.state = PathState::Down;
  nowhere_->queue_pairs.push_back(std::make_unique<QueuePair>(
      policy_, QueuePairPlace{.link = this, .path = nowhere_.get(), .index = 0}));
  nowhere_->queue_pairs.front()->quarantine();
  all_.push_back(nowhere_.get());
  why_dormant_ = std::move(why);
}

void PeerLink::add_sleeping(Lane& lane, const PathEnds& ends, std::string name, std::string why) {
  CHECK(paths_.empty() && !dormant());
  Path& added = place_path(lane, ends, std::move(name));
  added.key_place = primary_count_++;
  added.health.state = PathState::Resting;
  provide_queue_pairs(added);
  why_dormant_ = std::move(why);
  all_relayed_ = true;
  asleep_.store(true, std::memory_order_release);
}

void PeerLink::want_path() noexcept {
  // relaxed: nothing else is published with it.
  if (!wanted_.exchange(true, std::memory_order_relaxed)) loop_.wake_control();
}

void PeerLink::wake_up() noexcept {
  DCHECK(loop_.held());
  asleep_.store(false, std::memory_order_release);
  for (const auto& channel : channels_) {
    if (channel) channel->wake();
  }
}

void PeerLink::tell_dormant() noexcept {
  // relaxed: nothing else is published with it.
  if (dormant_told_.exchange(true, std::memory_order_relaxed)) return;
  LOG_WARN("peer {}: a message to a host that no path leads to fails: {}", identity_.peer_host,
           why_dormant_);
}

}  // namespace mesh::engine

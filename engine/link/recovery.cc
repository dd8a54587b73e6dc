// The control path's part of losing a path. Both sides stop their queue pairs of it, count what
// they took, and tell each other (FENCE). Only then is anything sent again: nothing of the old
// queue pairs can land any more, and the counts say what has. Opening it again is reopen.cc's.
#include "engine/engine_impl.h"
#include "src/base/log.h"

#include <algorithm>

namespace mesh::engine {

namespace {
// Every receive of a stopped queue pair completes; a device that does not say so is not waited for.
// What it took and did not report is sent once more to the same place: its queue pairs are
// destroyed before the counts are said, so nobody hears of it twice.
constexpr std::uint64_t kDrainBoundNs = 1'000'000'000;

// A queue pair's completions are its device's last writes: when all its receives have come back, no
// write of it is under way.
bool drained(const Path& path) {
  return std::all_of(path.queue_pairs.begin(), path.queue_pairs.end(),
                     [](const auto& queue_pair) { return queue_pair->drained(); });
}

// Grows with whatever gets through, in either direction.
std::uint64_t work_done(PeerLink& link) {
  std::uint64_t sum = 0;
  for (std::uint32_t i = 0; i < link.path_count(); ++i) {
    const PathCounters counters = link.path(i).counters();
    sum += counters.send_completions + counters.announcements;
  }
  return sum;
}

std::string causes_of(PeerLink& link) {
  std::string text;
  for (std::uint32_t i = 0; i < link.path_count(); ++i) {
    text += fmt::format("{}{}: {}", i == 0 ? "" : "; ", link.path(i).name,
                        link.path(i).health.last_cause);
  }
  return text;
}
}  // namespace

// True: to be looked at again in a millisecond.
bool EngineImpl::tend_paths(Link& link) {
  if (!link.has_peer_link() || link.state() != LinkState::Up ||
      link.peer_link().failure() != Errc::Ok)
    return false;
  bool again = false;
  if (!link.peer_link().every_path_is_up()) {
    for (std::uint32_t i = 0; i < link.peer_link().path_count(); ++i) again |= tend_path(link, i);
  }
  note_stall(link);
  if (!link.rewriting) return again;
  const ProgressLoop::Guard guard(link.context().loop);
  link.rewriting = !link.peer_link().rewrite_credits();
  return again || link.rewriting;
}

void EngineImpl::note_admitted(Link& link) {
  link.admitted_ns = clock_.now_ns();
  link.work_when_admitted = work_done(link.peer_link());
}

bool EngineImpl::tend_path(Link& link, std::uint32_t index) {
  PathState state = PathState::Up;
  {
    const ProgressLoop::Guard guard(link.context().loop);
    state = link.peer_link().path(index).health.state;
  }
  if (state == PathState::Quarantined) return fence_path(link, index);
  return state == PathState::Down && reopen_path(link, index);
}

bool EngineImpl::fence_path(Link& link, std::uint32_t index) {
  PathRepair& repair = link.repairs[index];
  if (!repair.said && !say_fence(link, index)) return true;
  if (!repair.peer_said) return false;  // its frame wakes us
  Path& path = link.peer_link().path(index);
  const ProgressLoop::Guard guard(link.context().loop);
  const std::uint64_t before = path.health.replayed_stripes;
  if (!link.peer_link().settle(path, repair.peer_taken)) {
    link.peer_link().fail(Errc::Protocol,
                          fmt::format("peer {}: counts announcements on {} that were not made",
                                      link.identity().peer_host, path.name));
    return true;
  }
  link.peer_link().destroy_path(path);
  link.rewriting = !link.connector();
  LOG_INFO("peer {}: path {} is fenced; {} stripes are sent again", link.identity().peer_host,
           path.name, path.health.replayed_stripes - before);
  // A path that fails again soon after it came back is left alone for longer.
  const bool soon = repair.backoff_ns != 0 && clock_.now_ns() < repair.at_ns;
  const std::uint64_t backoff_ns = soon ? repair.backoff_ns : kFirstBackoffNs;
  repair = {.at_ns = clock_.now_ns() + backoff_ns,
            .backoff_ns = backoff_ns,
            .lost_at_ns = repair.lost_at_ns};
  return true;
}

// False: not everything has been counted yet.
bool EngineImpl::say_fence(Link& link, std::uint32_t index) {
  PathRepair& repair = link.repairs[index];
  Path& path = link.peer_link().path(index);
  const ProgressLoop::Guard guard(link.context().loop);
  if (!repair.stopped) {
    link.peer_link().stop_path(path);
    repair.stopped = true;
    repair.lost_at_ns = clock_.now_ns();
    repair.drain_until_ns = repair.lost_at_ns + kDrainBoundNs;
  }
  link.context().loop.drain_completions();
  Fence fence{.path = static_cast<std::uint8_t>(index),
              .epoch = path.health.epoch,
              .cause = path.health.last_cause,
              .taken = {}};
  if (!link.connector()) {
    if (!drained(path) && clock_.now_ns() < repair.drain_until_ns) return false;
    for (const auto& queue_pair : path.queue_pairs)
      fence.taken.push_back(queue_pair->announcements_taken());
    link.peer_link().destroy_path(path);
  }
  repair.said = true;
  link.send(fence);
  return true;
}

bool EngineImpl::on_fence(Link& link, const Fence& body) {
  if (link.state() != LinkState::Up) return true;
  const std::size_t counts = link.connector() ? 1 + link.peer_link().policy().qps : 0;
  if (body.path >= link.peer_link().path_count() || body.taken.size() != counts) {
    return link.complain(fmt::format("a fence for path {} of {} with {} counts, {} are due",
                                     body.path, link.peer_link().path_count(), body.taken.size(),
                                     counts));
  }
  PathRepair& repair = link.repairs[body.path];
  Path& path = link.peer_link().path(body.path);
  {
    const ProgressLoop::Guard guard(link.context().loop);
    if (body.epoch != path.health.epoch || path.health.state == PathState::Down)
      return true;  // said again
    link.peer_link().quarantine(path, fmt::format("the peer says: {}", body.cause));
  }
  repair.peer_said = true;
  repair.peer_taken = body.taken;
  services_.tend_soon();
  return true;
}

// Without any path requests wait, but not for ever. A path that comes back and fails again at the
// first message is none: only what got through, or a while without trouble, ends the wait.
void EngineImpl::note_stall(Link& link) {
  if (link.stalled_since_ns == 0 && link.peer_link().every_path_is_up()) return;
  const std::uint64_t now_ns = clock_.now_ns();
  const std::uint64_t bound_ns =
      static_cast<std::uint64_t>(settings_.path_timeout_s) * kNsPerSecond;
  const ProgressLoop::Guard guard(link.context().loop);
  if (!link.peer_link().stalled()) {
    if (link.stalled_since_ns == 0) return;
    if (now_ns >= link.admitted_ns + kSteadyNs ||
        work_done(link.peer_link()) != link.work_when_admitted)
      link.stalled_since_ns = 0;
    services_.tend_at(link.admitted_ns + kSteadyNs);
    return;
  }
  if (link.stalled_since_ns == 0) link.stalled_since_ns = now_ns;
  for (PathRepair& repair : link.repairs) {
    if (repair.step != PathRepair::Step::Waiting) continue;
    repair.backoff_ns = std::min(repair.backoff_ns, kStalledBackoffNs);
    repair.at_ns = std::min(repair.at_ns, now_ns + kStalledBackoffNs);
  }
  if (now_ns >= link.stalled_since_ns + bound_ns && !link.peer_link().has_open_requests())
    link.stalled_since_ns = now_ns;  // nobody waits
  services_.tend_at(link.stalled_since_ns + bound_ns);
  if (now_ns < link.stalled_since_ns + bound_ns) return;
  link.peer_link().fail(Errc::Timeout,
                        fmt::format("peer {}: none of {} paths has come back within {} s "
                                    "(NCCL_MESH_PATH_TIMEOUT); requests on {} channels "
                                    "have waited for one. {}",
                                    link.identity().peer_host, link.peer_link().path_count(),
                                    settings_.path_timeout_s, link.peer_link().channel_count(),
                                    causes_of(link.peer_link())));
}

}  // namespace mesh::engine

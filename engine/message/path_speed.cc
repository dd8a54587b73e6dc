#include "engine/message/path_speed.h"

#include "src/base/check.h"

#include <algorithm>

namespace mesh::engine {

namespace {
// A stretch of learning completes this many times the bytes in flight at least. Work requests that
// share a path complete almost together, so completed bytes are known to within those in flight.
constexpr std::uint64_t kStretchInFlight = 4;
constexpr std::uint64_t kStretchBytes = std::uint64_t{2} << 20;
// A learned speed keeps this part of the port's: the path stays in use, so its recovery shows.
constexpr std::uint32_t kLeast = 256;
}  // namespace

void PathSpeeds::configure(std::span<const std::uint32_t> port_mbps,
                           std::span<const PathProgress> so_far) {
  DCHECK(port_mbps.size() <= kPathsMax);
  DCHECK(so_far.empty() || so_far.size() == port_mbps.size());
  *this = {};
  for (std::size_t i = 0; i < port_mbps.size(); ++i) {
    DCHECK(port_mbps[i] != 0);
    const std::uint64_t done = so_far.empty() ? 0 : so_far[i].done_bytes;
    known_[i] = {.port_mbps = port_mbps[i], .mbps = port_mbps[i], .done_before = done};
    done_before_ += done;
  }
}

void PathSpeeds::observe(std::span<const PathProgress> paths) noexcept {
  std::uint64_t done = 0, in_flight = 0;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    DCHECK(paths[i].done_bytes >= known_[i].done_before);
    done += paths[i].done_bytes;
    in_flight += paths[i].in_flight_bytes;
    if (paths[i].in_flight_bytes == 0) ++known_[i].idle_looks;
  }
  ++looks_;
  if (done - done_before_ < std::max(kStretchBytes, kStretchInFlight * in_flight)) return;
  done_before_ = done;
  learn(paths);
  for (std::size_t i = 0; i < paths.size(); ++i) {
    known_[i].done_before = paths[i].done_bytes;
    known_[i].idle_looks = 0;
  }
  looks_ = 0;
}

// Learns from one stretch. The busy paths carried their bytes in the ratio of their speeds. A path
// that was often idle may have carried less than it could, so that never lowers its estimate; if it
// was idle most of the time, it could have carried more.
void PathSpeeds::learn(std::span<const PathProgress> paths) noexcept {
  std::uint64_t busy_bytes = 0, busy_mbps = 0;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    if (!was_busy(known_[i])) continue;
    busy_bytes += paths[i].done_bytes - known_[i].done_before;
    busy_mbps += known_[i].mbps;
  }
  if (busy_bytes == 0) return forget(static_cast<std::uint32_t>(paths.size()));
  for (std::size_t i = 0; i < paths.size(); ++i) {
    Known& known = known_[i];
    const std::uint64_t carried = paths[i].done_bytes - known.done_before;
    std::uint64_t seen = carried * busy_mbps / busy_bytes;
    if (known.idle_looks * 2 > looks_)
      seen *= 2;  // the idle time is unknown, as there is one look per message
    DCHECK(known.mbps != 0);
    const std::uint64_t old = known.mbps;
    // Moves by a quarter at a time, because work requests complete in lumps.
    const std::uint64_t now = was_busy(known) || seen > old ? (3 * old + seen) / 4 : old;
    known.mbps = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(now, 1, UINT32_MAX / 2));
  }
  believe_the_best(static_cast<std::uint32_t>(paths.size()));
}

// Moves the estimates back towards the ports' speeds. While no path is busy nothing is learned, and
// what was learned last may be wrong.
void PathSpeeds::forget(std::uint32_t count) noexcept {
  for (std::uint32_t i = 0; i < count; ++i) {
    Known& known = known_[i];
    known.mbps = static_cast<std::uint32_t>((std::uint64_t{known.mbps} * 7 + known.port_mbps) / 8);
  }
}

// Scales all estimates so that the best path has its port's speed, because only ratios are known.
// The best path is the one nearest to its port's speed, or furthest above it.
void PathSpeeds::believe_the_best(std::uint32_t count) noexcept {
  std::uint32_t best = 0;
  for (std::uint32_t i = 1; i < count; ++i) {
    const std::uint64_t here = std::uint64_t{known_[i].mbps} * known_[best].port_mbps;
    if (here > std::uint64_t{known_[best].mbps} * known_[i].port_mbps) best = i;
  }
  const std::uint64_t from = known_[best].mbps, to = known_[best].port_mbps;
  DCHECK(from != 0 && to != 0);
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint64_t least = std::max(1u, known_[i].port_mbps / kLeast);
    known_[i].mbps = static_cast<std::uint32_t>(std::max(known_[i].mbps * to / from, least));
  }
}

}  // namespace mesh::engine

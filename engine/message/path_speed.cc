#include "engine/message/path_speed.h"

#include "src/base/check.h"

#include <algorithm>

namespace mesh::engine {

namespace {
// Work requests that share a path are done almost together, so what is done is known to within what
// is in flight.
constexpr std::uint64_t kStretchInFlight = 4;
constexpr std::uint64_t kStretchBytes = std::uint64_t{2} << 20;
// This part of the port's word is kept: a slower path is still used, so its recovery is noticed.
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

// Those that were busy share what they carried together in the ratio of their speeds. One that was
// often found idle may have carried less than it could: that never lowers what is thought of it,
// and if it was mostly idle it could have carried more.
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
      seen *= 2;  // how long it was idle is not known; we look when a message is done
    DCHECK(known.mbps != 0);
    const std::uint64_t old = known.mbps;
    // A quarter at a time: work requests are done in lumps.
    const std::uint64_t now = was_busy(known) || seen > old ? (3 * old + seen) / 4 : old;
    known.mbps = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(now, 1, UINT32_MAX / 2));
  }
  believe_the_best(static_cast<std::uint32_t>(paths.size()));
}

// While nobody is busy nothing is learned, and what was learned last may be wrong: back towards the
// ports' words.
void PathSpeeds::forget(std::uint32_t count) noexcept {
  for (std::uint32_t i = 0; i < count; ++i) {
    Known& known = known_[i];
    known.mbps = static_cast<std::uint32_t>((std::uint64_t{known.mbps} * 7 + known.port_mbps) / 8);
  }
}

// Only ratios are known: the path nearest to its port's word, or furthest above, is put at that
// word, the others with it.
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

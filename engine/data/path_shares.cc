#include "engine/data/path_shares.h"

#include "engine/data/path.h"
#include "engine/message/path_spread.h"
#include "src/base/check.h"
#include "src/base/timeouts.h"

#include <algorithm>
#include <array>

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

namespace {
// Speeds agree if they differ by at most this part of the greater one.
constexpr std::uint32_t kAgree = 10;
// Evenly cut messages for each look at the speeds. A look costs as much as to post two stripes.
constexpr std::uint32_t kEvenPerLook = 8;

// Returns the bytes that the path carries in the delay of its hosts.
std::uint64_t late_bytes(const Path& path, std::uint32_t mbps) {
  return path.hosts_between * kRelayHostDelayNs * mbps / 8000;
}
}  // namespace

void PathShares::assign(const std::vector<Path*>& usable, std::uint32_t qps) {
  usable_ = usable;
  qps_ = qps;
  // A port that does not say its speed counts as much as the fastest port that does.
  std::uint32_t fastest = 1;
  for (const Path* const path : usable) fastest = std::max(fastest, path->speed_mbps);
  std::vector<std::uint32_t> port_mbps;
  std::vector<PathProgress> so_far;
  port_mbps.reserve(usable.size());
  so_far.reserve(usable.size());
  for (const Path* const path : usable) {
    const std::uint32_t mbps = path->speed_mbps == 0 ? fastest : path->speed_mbps;
    // See path_spread.cc: others send over these cables, too.
    port_mbps.push_back(std::max(1u, mbps / (path->hosts_between + 1)));
    so_far.push_back({.done_bytes = path->bulk_done});
  }
  speeds_.configure(port_mbps, so_far);
  until_look_ = 0;
  detours_ = std::any_of(usable.begin(), usable.end(),
                         [](const Path* path) { return path->ends.relayed; });
}

void PathShares::learn() noexcept {
  std::array<PathProgress, kPathsMax> progress;
  const auto count = static_cast<std::uint32_t>(usable_.size());
  DCHECK(count <= kPathsMax);
  for (std::uint32_t i = 0; i < count; ++i) {
    progress[i] = {.done_bytes = usable_[i]->bulk_done,
                   .in_flight_bytes = usable_[i]->inflight_bytes()};
  }
  speeds_.observe({progress.data(), count});
  std::uint32_t slowest = UINT32_MAX, fastest = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    slowest = std::min(slowest, speeds_.mbps(i));
    fastest = std::max(fastest, speeds_.mbps(i));
  }
  speeds_agree_ = fastest - slowest <= fastest / kAgree && !detours_;
  until_look_ = kEvenPerLook;
}

// A path that is slower than believed keeps more bytes in flight. Where they differ by more than a
// message, spread() has to even that out.
bool PathShares::alike(std::uint64_t bytes) noexcept {
  if (until_look_ == 0) learn();
  if (!speeds_agree_) return false;
  std::uint64_t least = UINT64_MAX, most = 0;
  for (const Path* const path : usable_) {
    const std::uint64_t in_flight = path->inflight_bytes();
    least = std::min(least, in_flight);
    most = std::max(most, in_flight);
    if (in_flight + bytes > path->inflight_bytes_max || path->byte_waiter != nullptr) return false;
  }
  --until_look_;
  return most - least <= bytes;
}

const StripeTable& PathShares::spread(std::uint64_t bytes) noexcept {
  const auto count = static_cast<std::uint32_t>(usable_.size());
  DCHECK(count > 1 && count <= kPathsMax);
  learn();
  std::array<PathLoad, kPathsMax> loads;
  for (std::uint32_t i = 0; i < count; ++i) {
    loads[i] = {.bytes = usable_[i]->inflight_bytes(),
                .speed_mbps = speeds_.mbps(i),
                .next_qp = usable_[i]->next_qp};
    if (!detours_ || usable_[i]->hosts_between == 0) continue;
    loads[i].bytes += late_bytes(*usable_[i], speeds_.mbps(i));
    loads[i].hosts_between = usable_[i]->hosts_between;
  }
  const std::span<const PathLoad> paths(loads.data(), count);
  if (bytes > policy_.stripe_bytes) {
    spread_stripes(bytes, {.stripe_bytes = policy_.stripe_bytes, .qps = qps_}, paths, spread_);
  } else {
    const std::uint32_t path = earliest_path(bytes, paths, cursor_++);
    spread_.count = 1;
    spread_.stripes[0] = {.span = {.offset = 0, .bytes = bytes},
                          .position = loads[path].next_qp % qps_ * count + path};
  }
  DCHECK(spread_.count != 0 && spread_.count <= kStripesMax);
  for (std::uint32_t i = 0; i < spread_.count; ++i)
    ++usable_[spread_.stripes[i].position % count]->next_qp;
  return spread_;
}

}  // namespace mesh::engine

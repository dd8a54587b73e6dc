#include "engine/data/path_shares.h"

#include "engine/data/path.h"
#include "engine/message/path_spread.h"
#include "src/base/check.h"
#include "src/base/timeouts.h"

#include <algorithm>
#include <array>

namespace mesh::engine {

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

#pragma once
// Shares a link's messages out over its usable paths, where there are several. As a rule the paths
// are alike (the two halves of a cable): then a message is cut as over one path, and each path gets
// an equal part. Otherwise each path gets as much as lets all be done together (path_spread.h).
// Thread: loop (progress lock). Bound: kPathsMax paths.

#include <mesh/policy.h>

#include "engine/message/stripe.h"
#include "src/base/check.h"

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace mesh::engine {

struct Path;

struct PathProgress {
  std::uint64_t done_bytes = 0;  // ever acknowledged
  std::uint64_t in_flight_bytes = 0;
};

// Learns how fast the paths of a link are relative to one another: a port that is sick, or behind
// something slower, does not say so. The bytes carried while all paths were busy tell it without a
// clock, and sharing out a message needs only the ratio. The best path counts with its port's
// speed. One message at a time leaves every path idle and tells nothing; then the ports' speeds
// stand.
class PathSpeeds {
 public:
  // Sets the paths from now on: the speeds of their ports, all above 0, and what they have carried
  // so far (empty: nothing).
  void configure(std::span<const std::uint32_t> port_mbps,
                 std::span<const PathProgress> so_far = {});

  // Called before each large message, with one entry per path.
  void observe(std::span<const PathProgress> paths) noexcept;

  std::uint32_t mbps(std::uint32_t path) const noexcept {
    DCHECK(path < kPathsMax);
    return known_[path].mbps;
  }

 private:
  struct Known {
    std::uint32_t port_mbps = 1, mbps = 1;
    std::uint64_t done_before = 0;  // at the start of the stretch
    std::uint32_t idle_looks = 0;   // looks since then at which it was idle
  };
  bool was_busy(const Known& known) const noexcept { return known.idle_looks * 4 <= looks_; }
  void learn(std::span<const PathProgress> paths) noexcept;
  void forget(std::uint32_t count) noexcept;
  void believe_the_best(std::uint32_t count) noexcept;

  std::array<Known, kPathsMax> known_{};
  std::uint64_t done_before_ = 0;  // done_bytes of all paths, at the start of the stretch
  std::uint32_t looks_ = 0;        // in this stretch
};

class PathShares {
 public:
  explicit PathShares(const TransferPolicy& policy) : policy_(policy) {}

  // Sets the usable paths from now on, each with this many bulk queue pairs; they outlive their use
  // here.
  void assign(const std::vector<Path*>& usable, std::uint32_t qps);

  // Returns true if a message of this size may be cut evenly: the learned speeds agree, the bytes
  // in flight agree, and every path has room for the whole message.
  bool alike(std::uint64_t bytes) noexcept;
  // Returns the cut of a message over paths that are not alike; it lasts until the next call.
  const StripeTable& spread(std::uint64_t bytes) noexcept;

 private:
  [[gnu::noinline]] void learn() noexcept;

  const TransferPolicy& policy_;
  std::vector<Path*> usable_;
  std::uint32_t qps_ = 0;  // bulk queue pairs of each path
  PathSpeeds speeds_;
  bool speeds_agree_ = false;
  bool detours_ = false;          // some path leads over other hosts
  std::uint32_t until_look_ = 0;  // messages that are cut evenly before the speeds are looked at
  std::uint32_t cursor_ = 0;
  StripeTable spread_;
};

}  // namespace mesh::engine

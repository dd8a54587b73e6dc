#pragma once
// Shares a link's messages out over its usable paths, where there are several. As a rule the paths
// are alike (the two halves of a cable): then a message is cut as over one path, and each path gets
// an equal part. Otherwise each path gets as much as lets all be done together (path_spread.h).
// Thread: loop (progress lock). Bound: kPathsMax paths.

#include <mesh/policy.h>

#include "engine/message/path_speed.h"
#include "engine/message/stripe.h"

#include <cstdint>
#include <vector>

namespace mesh::engine {

struct Path;

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

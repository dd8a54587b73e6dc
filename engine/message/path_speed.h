#pragma once
// Learns how fast the paths of a link are relative to one another: a port that is sick, or behind
// something slower, does not say so. The bytes carried while all paths were busy tell it without a
// clock, and sharing out a message needs only the ratio. The best path counts with its port's
// speed. One message at a time leaves every path idle and tells nothing; then the ports' speeds
// stand. Thread: the loop's holder. Bound: kPathsMax paths.

#include <mesh/policy.h>

#include "src/base/check.h"

#include <array>
#include <cstdint>
#include <span>

namespace mesh::engine {

struct PathProgress {
  std::uint64_t done_bytes = 0;  // ever acknowledged
  std::uint64_t in_flight_bytes = 0;
};

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

}  // namespace mesh::engine

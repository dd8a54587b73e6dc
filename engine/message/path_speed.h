#pragma once
// How fast the paths of a link are, against each other: a port that is sick, or behind something
// slower, does not say so. What was carried while all were busy tells it without a clock, and only
// the ratio matters for sharing out a message. The best path is believed its port's word. One
// message at a time leaves every path idle and tells nothing; then the ports' words stand. Thread:
// the loop's holder. Bound: kPathsMax paths.

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
  // Which paths there are from now on: their ports' words, all above 0, and what they have carried
  // so far (empty: nothing).
  void configure(std::span<const std::uint32_t> port_mbps,
                 std::span<const PathProgress> so_far = {});

  // Before each large message, one entry per path.
  void observe(std::span<const PathProgress> paths) noexcept;

  std::uint32_t mbps(std::uint32_t path) const noexcept {
    DCHECK(path < kPathsMax);
    return known_[path].mbps;
  }

 private:
  struct Known {
    std::uint32_t port_mbps = 1, mbps = 1;
    std::uint64_t done_before = 0;  // when the stretch began
    std::uint32_t idle_looks = 0;   // since then
  };
  bool was_busy(const Known& known) const noexcept { return known.idle_looks * 4 <= looks_; }
  void learn(std::span<const PathProgress> paths) noexcept;
  void forget(std::uint32_t count) noexcept;
  void believe_the_best(std::uint32_t count) noexcept;

  std::array<Known, kPathsMax> known_{};
  std::uint64_t done_before_ = 0;  // of all paths
  std::uint32_t looks_ = 0;        // in this stretch
};

}  // namespace mesh::engine

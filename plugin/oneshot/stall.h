#pragma once
// Notices all-reduces that do not come further. Only one of kTestsToLook tests that end nothing
// reads the clock. Thread: the group's. Bound: it speaks once for each stall.

#include "src/base/clock.h"

#include <cstdint>
#include <utility>

namespace mesh::oneshot {

class StallWatch {
 public:
  static constexpr std::uint32_t kTestsToLook = 256;

  struct Options {
    std::uint64_t bar_ns = 0;  // NCCL_MESH_STALL_SECONDS; 0: no stall is told
    Clock clock = {};
  };
  explicit StallWatch(const Options& options) noexcept : options_(options) {}

  // Called by a test that has found its job open. Returns true if it must look().
  bool due() noexcept { return options_.bar_ns != 0 && ++tests_ % kTestsToLook == 0; }
  enum class Say : std::uint8_t { Nothing, Waits, GoesOn };
  // `mark` changes whenever some job comes further.
  Say look(std::uint64_t mark) noexcept {
    const std::uint64_t now_ns = options_.clock.now_ns();
    if (std::exchange(mark_, mark) != mark || since_ns_ == 0) return begin(now_ns);
    age_ns_ = now_ns - since_ns_;
    if (told_ || age_ns_ < options_.bar_ns) return Say::Nothing;
    told_ = true;
    return Say::Waits;
  }
  // Called when a job begins while none is open: the time before counts for nothing.
  void restart() noexcept { since_ns_ = 0; }
  std::uint64_t age_ns() const noexcept { return age_ns_; }  // of the stall that was told last

 private:
  Say begin(std::uint64_t now_ns) noexcept {
    const bool told = std::exchange(told_, false);
    if (told) age_ns_ = now_ns - since_ns_;
    since_ns_ = now_ns;
    return told ? Say::GoesOn : Say::Nothing;
  }

  const Options options_;
  std::uint32_t tests_ = 0;
  std::uint64_t mark_ = 0, since_ns_ = 0, age_ns_ = 0;
  bool told_ = false;
};

}  // namespace mesh::oneshot

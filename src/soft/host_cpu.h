#pragma once
// The time that a host's verbs calls have cost its CPU on a manual clock, where calls themselves
// take no time. The owner of the clock takes the sum after each call, and lets the host act again
// only when that time has passed. What is posted meanwhile is posted that much later. With the wall
// clock nothing is counted. Thread: any. Bound: none; if nobody takes the sum, posts become later
// and later.

#include "src/base/clock.h"

#include <atomic>
#include <cstdint>

namespace mesh::soft {

class HostCpu {
 public:
  explicit HostCpu(const Clock& clock) : clock_(clock) {}

  void spend(std::uint64_t ns) noexcept {
    if (ns != 0 && clock_.manual()) spent_ns_.fetch_add(ns, std::memory_order_relaxed);
  }
  std::uint64_t take() noexcept { return spent_ns_.exchange(0, std::memory_order_relaxed); }
  // Returns the time as the host sees it in the middle of its calls.
  std::uint64_t now_ns() const noexcept {
    return clock_.now_ns() + spent_ns_.load(std::memory_order_relaxed);
  }

 private:
  const Clock clock_;
  std::atomic<std::uint64_t> spent_ns_{0};
};

}  // namespace mesh::soft

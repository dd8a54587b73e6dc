#pragma once
// Time in nanoseconds: CLOCK_MONOTONIC, or a word that a simulator moves by hand. A Clock is a
// value and is copied freely. It makes no system call (the vDSO serves clock_gettime). Thread: any.
// Bound: none.

#include <atomic>
#include <cstdint>
#include <ctime>

namespace mesh {

inline constexpr std::uint64_t kNsPerMs = 1'000'000;
inline constexpr std::uint64_t kNsPerSecond = 1'000'000'000;

class Clock {
 public:
  constexpr Clock() noexcept = default;
  constexpr explicit Clock(const std::atomic<std::uint64_t>* manual_ns) noexcept
      : manual_ns_(manual_ns) {}

  std::uint64_t now_ns() const noexcept {
    if (manual_ns_ != nullptr) return manual_ns_->load(std::memory_order_relaxed);
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * kNsPerSecond +
           static_cast<std::uint64_t>(now.tv_nsec);
  }
  bool manual() const noexcept { return manual_ns_ != nullptr; }

 private:
  const std::atomic<std::uint64_t>* manual_ns_ = nullptr;
};

}  // namespace mesh

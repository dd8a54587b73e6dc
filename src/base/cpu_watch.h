#pragma once
// Notices that other threads take the CPU of a thread that does not sleep: real time goes on, and
// its processor time does not. Thread: the watched one. Bound: none.

#include "src/base/clock.h"
#include "src/base/timeouts.h"

#include <cstdint>
#include <ctime>

namespace mesh {

class CpuWatch {
 public:
  // Begins anew at the next look, because the thread has slept.
  void restart() noexcept { seen_ns_ = 0; }

  // Returns true if the thread has waited for its CPU for kLostCpuNs since the last look. A call
  // reads a clock, and once every kLostCpuNs the thread's processor time, which is a system call.
  bool lost() noexcept {
    const std::uint64_t now_ns = Clock().now_ns();
    if (seen_ns_ != 0 && now_ns < seen_ns_ + kLostCpuNs) return false;
    timespec used{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    const std::uint64_t used_ns = static_cast<std::uint64_t>(used.tv_sec) * kNsPerSecond +
                                  static_cast<std::uint64_t>(used.tv_nsec);
    const bool lost = seen_ns_ != 0 && now_ns - seen_ns_ >= used_ns - used_ns_ + kLostCpuNs;
    seen_ns_ = now_ns;
    used_ns_ = used_ns;
    return lost;
  }

 private:
  std::uint64_t seen_ns_ = 0;  // 0: begins anew
  std::uint64_t used_ns_ = 0;
};

}  // namespace mesh

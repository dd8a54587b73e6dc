#pragma once
// Waiting for another thread that needs a moment: it is let run by a few yields, then by sleeps
// that grow. Yields alone need not let it run: the kernel prefers who has had less processor time,
// and charges a thread for a stop of its whole host. Thread: the waiting one; off a healthy
// message's way. Bound: who calls asks again after kSleepNsMax at most.

#include <sched.h>
#include <time.h>

#include <algorithm>

namespace mesh {

class Yielding {
 public:
  static constexpr int kYields = 64;
  static constexpr long kSleepNsMin = 50'000, kSleepNsMax = 1'000'000;

  void wait() noexcept {
    if (yields_ < kYields) {
      ++yields_;
      ::sched_yield();
      return;
    }
    const timespec pause{.tv_sec = 0, .tv_nsec = sleep_ns_};
    ::nanosleep(&pause, nullptr);
    sleep_ns_ = std::min(2 * sleep_ns_, kSleepNsMax);
  }

 private:
  int yields_ = 0;
  long sleep_ns_ = kSleepNsMin;
};

}  // namespace mesh

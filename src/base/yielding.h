#pragma once
// Waits for another thread that will be done in a moment: a few yields, then sleeps that grow.
// Yields alone can starve that thread on a shared processor: the kernel runs the thread with the
// least processor time first, and after a pause of the whole host it has charged the pause to one
// of the two. Thread: the waiting one, never on a healthy message's way. Bound: one wait() takes
// kYieldingSleepMaxNs, and the caller looks again.

#include "src/base/timeouts.h"

#include <sched.h>
#include <time.h>

#include <algorithm>
#include <atomic>

namespace mesh {

class Yielding {
 public:
  static constexpr int kYields = 64;

  // Returns true if the next wait() is a sleep.
  bool sleeps() const noexcept { return yields_ == kYields; }
  void yield_again() noexcept { yields_ = 0; }  // before the next sleep

  void wait() noexcept {
    if (!sleeps()) {
      ++yields_;
      ::sched_yield();
      return;
    }
    const timespec pause{.tv_sec = 0, .tv_nsec = static_cast<long>(sleep_ns_)};
    ::nanosleep(&pause, nullptr);
    sleep_ns_ = std::min(2 * sleep_ns_, kYieldingSleepMaxNs);
  }

 private:
  int yields_ = 0;
  std::uint64_t sleep_ns_ = kNapMinNs;
};

// A lock that is held for a few instructions and practically never contended. Thread: any. Bound:
// what its holder does.
class ShortLock {
 public:
  void lock() noexcept {
    if (held_.exchange(true, std::memory_order_acquire)) [[unlikely]]
      wait_for_holder();
  }
  void unlock() noexcept { held_.store(false, std::memory_order_release); }

 private:
  [[gnu::cold, gnu::noinline]] void wait_for_holder() noexcept {
    Yielding holder;
    do {
      holder.wait();
    } while (held_.exchange(true, std::memory_order_acquire));
  }

  std::atomic<bool> held_{false};  // released in unlock(), acquired in lock()
};

}  // namespace mesh

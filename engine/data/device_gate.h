#pragma once
// Lets calls to a device in, until its card has left. Then only the thread that works for the new
// card comes in, and whoever wants to know sees when the last of the others has gone. Thread: any.
// Bound: 2^31 - 1 threads inside.

#include "src/base/check.h"

#include <atomic>
#include <cstdint>
#include <thread>

namespace mesh::engine {

class DeviceGate {
 public:
  bool closed() const noexcept { return (state_.load(std::memory_order_acquire) & kClosed) != 0; }
  void close() noexcept { state_.fetch_or(kClosed, std::memory_order_acq_rel); }
  // Returns true if it is closed and nobody is inside.
  bool quiet() const noexcept { return state_.load(std::memory_order_acquire) == kClosed; }
  void open() noexcept {
    DCHECK(closed());
    state_.fetch_and(~kClosed, std::memory_order_acq_rel);
  }
  // The calling thread comes in although the gate is closed.
  void admit_this_thread() noexcept {
    admitted_.store(std::this_thread::get_id(), std::memory_order_relaxed);
  }
  void admit_nobody() noexcept { admitted_.store({}, std::memory_order_relaxed); }

  // A call to the device; false: it may not be made.
  class Visit {
   public:
    explicit Visit(DeviceGate& gate) noexcept : gate_(gate), in_(gate.enter()) {}
    ~Visit() {
      if (in_) gate_.state_.fetch_sub(1, std::memory_order_release);
    }
    Visit(const Visit&) = delete;
    Visit& operator=(const Visit&) = delete;
    explicit operator bool() const noexcept { return in_; }

   private:
    DeviceGate& gate_;
    const bool in_;
  };

 private:
  static constexpr std::uint32_t kClosed = 1u << 31;

  // A thread that is not let in is never counted, so a gate that is quiet stays so until a thread
  // is admitted.
  bool enter() noexcept {
    std::uint32_t state = state_.load(std::memory_order_acquire);
    do {
      // A thread can only find its own id there if it has written it.
      if ((state & kClosed) != 0 &&
          admitted_.load(std::memory_order_relaxed) != std::this_thread::get_id())
        return false;
    } while (!state_.compare_exchange_weak(state, state + 1, std::memory_order_acq_rel,
                                           std::memory_order_acquire));
    return true;
  }

  std::atomic<std::uint32_t> state_{0};  // threads inside, and whether it is closed
  std::atomic<std::thread::id> admitted_{};
};

}  // namespace mesh::engine

#pragma once
// The lock of an end's completion queue: held for a few instructions, and practically never
// contended, because posts and polls are one thread's. Thread: any. Bound: what its holder does.

#include "src/base/yielding.h"

#include <atomic>

namespace mesh::relay {

class ShortLock {
 public:
  void lock() noexcept {
    Yielding holder;
    while (held_.exchange(true, std::memory_order_acquire)) holder.wait();
  }
  void unlock() noexcept { held_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> held_{false};  // released in unlock(), acquired in lock()
};

}  // namespace mesh::relay

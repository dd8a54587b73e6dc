#pragma once
// The two small locks of the fabric. SpinLock: held for a few instructions, practically never
// contended. TurnLock: the right to turn a NIC; turns only try, the control path takes it and is
// then preferred. Thread: any. Bound: a turn's budget.

#include <sched.h>

#include <atomic>

namespace mesh::soft {

class SpinLock {
 public:
  void lock() noexcept {
    while (held_.exchange(true, std::memory_order_acquire)) ::sched_yield();
  }
  bool try_lock() noexcept { return !held_.exchange(true, std::memory_order_acquire); }
  void unlock() noexcept { held_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> held_{false};
};

class TurnLock {
 public:
  bool try_lock() noexcept {
    if (waiting_.load(std::memory_order_relaxed) != 0) return false;
    return !held_.load(std::memory_order_relaxed) &&
           !held_.exchange(true, std::memory_order_acquire);
  }
  void lock() noexcept {
    waiting_.fetch_add(1, std::memory_order_relaxed);
    while (held_.exchange(true, std::memory_order_acquire)) ::sched_yield();
    waiting_.fetch_sub(1, std::memory_order_relaxed);
  }
  void unlock() noexcept { held_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> held_{false};
  std::atomic<int> waiting_{0};
};

}  // namespace mesh::soft

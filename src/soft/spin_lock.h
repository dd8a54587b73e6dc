#pragma once
// The two small locks of the fabric. A SpinLock is held for a few instructions and practically
// never contended. A TurnLock is the right to turn a NIC: a turn only tries to take it, the control
// path waits for it and is then preferred. Thread: any. Bound: a turn's budget.

#include "src/base/check.h"
#include "src/base/yielding.h"

#include <atomic>
#ifndef NDEBUG
#include <thread>
#endif

namespace mesh::soft {

// The thread that holds a lock, for checks in debug builds only.
#ifdef NDEBUG
class LockHolder {
 public:
  void taken() noexcept {}
  void released() noexcept {}
  bool is_this_thread() const noexcept { return true; }
};
#else
class LockHolder {
 public:
  void taken() noexcept { thread_.store(std::this_thread::get_id(), std::memory_order_relaxed); }
  void released() noexcept {
    CHECK(is_this_thread());
    thread_.store({}, std::memory_order_relaxed);
  }
  bool is_this_thread() const noexcept {
    return thread_.load(std::memory_order_relaxed) == std::this_thread::get_id();
  }

 private:
  std::atomic<std::thread::id> thread_{};
};
#endif

class SpinLock {
 public:
  void lock() noexcept {
    DCHECK(!held_here());
    if (held_.exchange(true, std::memory_order_acquire)) wait_for_holder();
    holder_.taken();
  }
  bool try_lock() noexcept {
    if (held_.exchange(true, std::memory_order_acquire)) return false;
    holder_.taken();
    return true;
  }
  void unlock() noexcept {
    holder_.released();
    held_.store(false, std::memory_order_release);
  }
  bool held_here() const noexcept { return holder_.is_this_thread(); }  // for DCHECK only

 protected:
  std::atomic<bool> held_{false};

 private:
  [[gnu::noinline]] void wait_for_holder() noexcept {
    Yielding holder;
    while (held_.exchange(true, std::memory_order_acquire)) holder.wait();
  }

  LockHolder holder_;
};

class TurnLock : public SpinLock {
 public:
  bool try_lock() noexcept {
    if (waiting_.load(std::memory_order_relaxed) != 0) return false;
    return !held_.load(std::memory_order_relaxed) && SpinLock::try_lock();
  }
  void lock() noexcept {
    waiting_.fetch_add(1, std::memory_order_relaxed);
    SpinLock::lock();
    waiting_.fetch_sub(1, std::memory_order_relaxed);
  }

 private:
  std::atomic<int> waiting_{0};
};

}  // namespace mesh::soft

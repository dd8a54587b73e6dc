#pragma once
// Shows that the calls of an object do not overlap: one thread is inside at a time, and it may call
// the object again from there, as a callback does. Each call puts a Call on its stack. Debug builds
// check this; release builds store nothing and do nothing. Thread: any. Bound: none.

#include "src/base/check.h"

#ifndef NDEBUG
#include "src/base/held_locks.h"

#include <atomic>
#include <thread>
#endif

namespace mesh {

// OwnerThread remembers which thread holds a progress lock at this moment, for DCHECK and
// held_locks.h alone. Thread: take and leave by the owner; owned_here by any.

#ifdef NDEBUG

class OneAtATime {
 public:
  class Call {
   public:
    explicit Call(OneAtATime&) noexcept {}
    ~Call() {}
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;
  };
  bool inside() const noexcept { return true; }  // a release build cannot tell
};

class OwnerThread {
 public:
  void take() noexcept {}
  void leave() noexcept {}
  bool owned_here() const noexcept { return true; }
};

#else

class OneAtATime {
 public:
  class Call {
   public:
    explicit Call(OneAtATime& calls) noexcept : calls_(calls) {
      std::thread::id nobody{};
      const bool entered = calls_.owner_.compare_exchange_strong(
          nobody, std::this_thread::get_id(), std::memory_order_acquire, std::memory_order_relaxed);
      CHECK(entered || calls_.inside());
      ++calls_.depth_;
    }
    ~Call() {
      CHECK(calls_.inside() && calls_.depth_ > 0);
      if (--calls_.depth_ == 0) calls_.owner_.store({}, std::memory_order_release);
    }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    OneAtATime& calls_;
  };

  // Returns true if the calling thread is inside a call.
  bool inside() const noexcept {
    return owner_.load(std::memory_order_relaxed) == std::this_thread::get_id();
  }

 private:
  std::atomic<std::thread::id> owner_{};  // released in ~Call, acquired in Call
  int depth_ = 0;                         // the owner's calls, each inside the one before
};

class OwnerThread {
 public:
  void take() noexcept {
    owner_.store(std::this_thread::get_id(), std::memory_order_relaxed);
    note_progress_lock(+1);
  }
  void leave() noexcept {
    note_progress_lock(-1);
    owner_.store({}, std::memory_order_relaxed);
  }
  bool owned_here() const noexcept {
    return owner_.load(std::memory_order_relaxed) == std::this_thread::get_id();
  }

 private:
  std::atomic<std::thread::id> owner_{};
};

#endif

}  // namespace mesh

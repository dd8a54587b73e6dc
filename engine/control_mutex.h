#pragma once
// The engine's control mutex. It knows its holder, so that code that needs it can check that the
// calling thread holds it. Thread: any.

#include <atomic>
#include <mutex>
#include <thread>

namespace mesh::engine {

class ControlMutex {
 public:
  void lock() {
    mutex_.lock();
    note_holder(std::this_thread::get_id());
  }
  bool try_lock() {
    if (!mutex_.try_lock()) return false;
    note_holder(std::this_thread::get_id());
    return true;
  }
  void unlock() {
    note_holder({});
    mutex_.unlock();
  }
  bool held_here() const noexcept {
    return holder_.load(std::memory_order_relaxed) == std::this_thread::get_id();
  }

 private:
  // Relaxed order suffices: held_here() needs only what the calling thread itself has written.
  void note_holder(std::thread::id id) noexcept { holder_.store(id, std::memory_order_relaxed); }

  std::mutex mutex_;
  std::atomic<std::thread::id> holder_{};
};

}  // namespace mesh::engine

#pragma once
// The engine's control mutex, which knows its holder: whoever must hold it can check that it does.
// Thread: any.

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
  // Relaxed: a thread that asks about itself sees what it has written itself.
  void note_holder(std::thread::id id) noexcept { holder_.store(id, std::memory_order_relaxed); }

  std::mutex mutex_;
  std::atomic<std::thread::id> holder_{};
};

}  // namespace mesh::engine

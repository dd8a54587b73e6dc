#pragma once
// Remembers which thread owns something at this moment, for DCHECK alone: debug builds store it,
// and in all others the type is empty. Thread: take and leave by the owner; owned_here by any.

#ifndef NDEBUG
#include <atomic>
#include <thread>
#endif

namespace mesh {

#ifdef NDEBUG
class OwnerThread {
 public:
  void take() noexcept {}
  void leave() noexcept {}
  bool owned_here() const noexcept { return true; }
};
#else
class OwnerThread {
 public:
  void take() noexcept { owner_.store(std::this_thread::get_id(), std::memory_order_relaxed); }
  void leave() noexcept { owner_.store({}, std::memory_order_relaxed); }
  bool owned_here() const noexcept {
    return owner_.load(std::memory_order_relaxed) == std::this_thread::get_id();
  }

 private:
  std::atomic<std::thread::id> owner_{};
};
#endif

}  // namespace mesh

#pragma once
// The locks of the calling thread that traffic over every rail needs: the control mutex and
// progress locks. Whoever holds one must not wait for a device, and a test's provider asks at each
// call whether its caller does. Only such a test has the memory for it, one object a thread: the
// plugin has none, because thread-local memory of a shared library is allocated for each thread
// that touches it. A turn of a loop is noted in debug builds only, because messages make turns; a
// Guard is noted always. Thread: any, each its own. Bound: none.

#include <cstdint>
#include <utility>

namespace mesh {

struct HeldLocks {
  std::uint32_t control_mutexes = 0;
  std::uint32_t progress_locks = 0;
};

// Returns the object of the calling thread. Null unless a test has set it before any lock is taken.
using HeldLocksHere = HeldLocks& (*)() noexcept;
inline constinit HeldLocksHere g_held_locks = nullptr;

// One more lock or, with -1, one less.
inline void note_control_mutex(int change) noexcept {
  if (g_held_locks != nullptr) g_held_locks().control_mutexes += static_cast<std::uint32_t>(change);
}
inline void note_progress_lock(int change) noexcept {
  if (g_held_locks != nullptr) g_held_locks().progress_locks += static_cast<std::uint32_t>(change);
}

// Returns true if the calling thread must not wait for a device, as far as a test has that noted.
inline bool holds_locks() noexcept {
  if (g_held_locks == nullptr) return false;
  const HeldLocks& held = g_held_locks();
  return held.control_mutexes != 0 || held.progress_locks != 0;
}

// While it lives, the calling thread may wait for devices whatever it holds: the engine has no
// threads (Threading::Manual), or none could be started.
class WaitsUnderLocks {
 public:
  WaitsUnderLocks() noexcept {
    if (g_held_locks != nullptr) held_ = std::exchange(g_held_locks(), {});
  }
  ~WaitsUnderLocks() {
    if (g_held_locks != nullptr) g_held_locks() = held_;
  }
  WaitsUnderLocks(const WaitsUnderLocks&) = delete;
  WaitsUnderLocks& operator=(const WaitsUnderLocks&) = delete;

 private:
  HeldLocks held_{};
};

}  // namespace mesh

#pragma once
// The locks of the calling thread that traffic over every rail needs: the control mutex and
// progress locks. Whoever holds one must not wait for a device, and a test's provider asks at each
// call whether its caller does. A turn of a loop is noted in debug builds only, because messages
// make turns; a Guard is noted always. Thread: any, each its own. Bound: none.

#include <cstdint>

namespace mesh {

struct HeldLocks {
  std::uint32_t control_mutexes = 0;
  std::uint32_t progress_locks = 0;
};

inline constinit thread_local HeldLocks g_held_locks;  // of the calling thread

}  // namespace mesh

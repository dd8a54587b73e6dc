#pragma once
// Has the engine note the locks that each thread of a test holds, and the software fabric refuse
// calls of threads that hold one (src/base/held_locks.h). Thread: any, each its own. Bound: none.

#include "src/base/held_locks.h"

namespace mesh::testkit {

inline HeldLocks& held_here() noexcept {
  static constinit thread_local HeldLocks held;
  return held;
}

// Set before main, so each lock is counted.
inline const bool kCountsLocks = [] {
  g_held_locks = held_here;
  return true;
}();

}  // namespace mesh::testkit

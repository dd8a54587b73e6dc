#pragma once
// Waits for other threads in tests. After some yields it sleeps between its looks: threads that
// only yield keep a starved one from the processor (src/base/yielding.h). Thread: any. Bound: a
// minute.

#include "tests/prelude.h"

namespace mesh::testkit {

// Waits until done() is true. Returns false if it is not within a minute.
template <typename Done>
bool wait_until(Done&& done) {
  constexpr int kYields = 1000;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  for (int looks = 0; !done(); ++looks) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    if (looks < kYields) {
      ::sched_yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  }
  return true;
}

}  // namespace mesh::testkit

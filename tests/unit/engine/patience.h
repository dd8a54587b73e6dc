#pragma once
// Waits for other threads in tests, without sleeping.
// Thread: any. Bound: a minute.

#include <sched.h>

#include <chrono>

namespace mesh::testkit {

// Waits until done() is true. Returns false if it is not within a minute.
template <typename Done>
bool wait_until(Done&& done) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (!done()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    ::sched_yield();
  }
  return true;
}

}  // namespace mesh::testkit

#pragma once
// The state of its host process that a library must leave as it was: the calling thread's signal
// mask, descriptors, threads, memory. Thread: one.

#include "tests/standard.h"

namespace mesh::testkit {

class ProcessState {
 public:
  static ProcessState now();
  // Waits for the engine's pool threads, which end when they have had no task for a while.
  static ProcessState settled();
  // Returns in words what is different; "" if nothing is.
  std::string difference(const ProcessState& later) const;
  bool differs_in_memory_alone(const ProcessState& later) const;

 private:
  std::set<int> signals_;  // blocked signals
  std::set<std::string> descriptors_;
  std::size_t threads_ = 0;
  std::size_t pool_threads_ = 0;  // part of these
  std::size_t blocks_ = 0;
};

}  // namespace mesh::testkit

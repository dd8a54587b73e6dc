#pragma once
// What a library must leave in its host process as it was: the calling thread's signal mask,
// descriptors, threads, memory. Thread: one.

#include <csignal>
#include <cstddef>
#include <set>
#include <string>

namespace mesh::testkit {

class ProcessState {
 public:
  static ProcessState now();
  // "" when nothing is different; else what is, in words.
  std::string difference(const ProcessState& later) const;
  bool differs_in_memory_alone(const ProcessState& later) const;

 private:
  std::set<int> signals_;  // blocked
  std::set<std::string> descriptors_;
  std::size_t threads_ = 0;
  std::size_t blocks_ = 0;
};

}  // namespace mesh::testkit

#pragma once
// Many seeds in several processes: one that crashes or hangs costs its own seed and no more.

#include "tests/sim/seed_run.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace mesh::sim {

struct Batch {
  std::vector<std::uint64_t> seeds;
  Options options;
  unsigned jobs = 1;
  unsigned limit_s = 120;          // of processor time, a seed; ten times that by the clock
  std::uint64_t failures_max = 5;  // then no new ones are begun
};

// What a process reports of one seed; fixed size, so that a pipe takes it whole.
struct Report {
  std::uint64_t seed = 0;
  std::uint64_t hash = 0, events = 0, simulated_ns = 0;
  Tally tally;
  bool failed = false;
  char violation[512] = {};
  char last_events[3000] = {};
};

// told: after each seed, in the order in which they end. Returns how many failed.
std::uint64_t run_batch(const Batch& batch, const std::function<void(const Report&)>& told);

}  // namespace mesh::sim

#pragma once
// Runs many seeds in several processes: a seed that crashes or hangs costs no other seed.

#include "tests/sim/seed_run.h"

namespace mesh::sim {

// The processor time for a seed: several times what the dearest takes on a slow machine, where
// nothing is optimised (tests/sim/planted) or sanitizers look on: about ten times as much.
#if defined(MESH_SANITIZE_ADDRESS) || defined(MESH_SANITIZE_THREAD) || !defined(__OPTIMIZE__)
inline constexpr unsigned kSeedLimitS = 1200;
#else
inline constexpr unsigned kSeedLimitS = 120;
#endif

struct Batch {
  std::vector<std::uint64_t> seeds;
  Options options;
  unsigned jobs = 1;
  unsigned limit_s = kSeedLimitS;  // processor time for a seed; ten times as much by the clock
  std::uint64_t failures_max = 5;  // after so many no new seed is begun
};

// The report of a process on one seed. Its size is fixed, so that a pipe takes it whole.
struct Report {
  std::uint64_t seed = 0;
  std::uint64_t hash = 0, events = 0, simulated_ns = 0;
  Tally tally;
  bool failed = false;
  char violation[512] = {};
  char last_events[3000] = {};
};

// Runs all seeds, calls `told` after each, in the order in which they end, and returns how many
// failed.
std::uint64_t run_batch(const Batch& batch, const std::function<void(const Report&)>& told);

}  // namespace mesh::sim

#pragma once
// Runs one seed, from its scenario to its verdict.

#include "tests/sim/scenario.h"
#include "tests/sim/world.h"

namespace mesh::sim {

struct Verdict {
  std::string violation;    // empty if the run was right
  std::string last_events;  // of a run with a violation
  std::uint64_t hash = 0, events = 0;
  std::uint64_t hosts = 0, channels = 0, simulated_ns = 0;
  Tally tally;
};

Verdict run_seed(std::uint64_t seed, const Options& options, bool verbose);

}  // namespace mesh::sim

#pragma once
// The order in which the cables are measured: every host has at most one of them at a time. Thread:
// any (pure). Bound: the cabling, kStepsMax steps.

#include "perf/mesh_doctor/measured.h"

#include <cstddef>
#include <vector>

namespace mesh::doctor {

inline constexpr std::size_t kStepsMax = 2000;

using Round = std::vector<Step>;

// Each cable has a step for every half alone, and then one for all halves together. Hosts that
// share a machine measure one cable at a time.
struct Schedule {
  std::vector<Round> rounds;
  std::size_t left_out = 0;  // steps beyond the bound
};
Schedule schedule(const Cabling& cabling, bool one_machine);

}  // namespace mesh::doctor

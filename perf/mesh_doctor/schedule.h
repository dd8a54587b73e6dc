#pragma once
// In which order the cables are measured: every host has at most one of them at a time. Thread: any
// (pure). Bound: the cabling, kStepsMax steps.

#include "perf/mesh_doctor/measured.h"

#include <cstddef>
#include <vector>

namespace mesh::doctor {

inline constexpr std::size_t kStepsMax = 2000;

using Round = std::vector<Step>;

// Of each cable every half alone, and then all of them together. One at a time where the hosts
// share a machine.
struct Schedule {
  std::vector<Round> rounds;
  std::size_t left_out = 0;  // steps beyond the bound
};
Schedule schedule(const Cabling& cabling, bool one_machine);

}  // namespace mesh::doctor

#pragma once
// Judges whether the ranks' order makes a ring of cables. Thread: any (pure). Bound: find_ring()'s.

#include "perf/mesh_doctor/finding.h"
#include "perf/mesh_doctor/measured.h"

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace mesh::doctor {

struct OrderAdvice {
  std::optional<Finding> finding;  // set if another order makes a ring, and this one does not
  std::vector<std::size_t> order;  // the better order
  std::string note;                // set if no order that makes a ring was found
};
OrderAdvice advise_order(const Cabling& cabling, const std::vector<Measured>& measured);

}  // namespace mesh::doctor

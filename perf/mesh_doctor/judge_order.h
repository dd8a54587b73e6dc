#pragma once
// Whether the order of the ranks makes a ring of cables. Thread: any (pure). Bound: as find_ring().

#include "perf/mesh_doctor/finding.h"
#include "perf/mesh_doctor/measured.h"

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace mesh::doctor {

struct OrderAdvice {
  std::optional<Finding> finding;  // another order would do, and this one does not
  std::vector<std::size_t> order;  // that one
  std::string note;                // none would do
};
OrderAdvice advise_order(const Cabling& cabling, const std::vector<Measured>& measured);

}  // namespace mesh::doctor

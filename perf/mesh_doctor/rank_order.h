#pragma once
// Judges whether the ranks' order makes a ring of cables, and searches an order that makes every
// neighbour in NCCL's ring a neighbour by cable. Thread: any (pure). Bound: kOrderStepsMax steps of
// the search.

#include "perf/mesh_doctor/finding.h"
#include "perf/mesh_doctor/measured.h"

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace mesh::doctor {

inline constexpr std::size_t kOrderStepsMax = 1'000'000;

using Joined = std::function<bool(std::size_t, std::size_t)>;

// Returns the neighbours in the ring 0, 1, ... that no cable joins.
std::vector<std::pair<std::size_t, std::size_t>> broken_neighbours(std::size_t hosts,
                                                                   const Joined& joined);

struct RingSearch {
  std::optional<std::vector<std::size_t>> order;  // begins with 0
  bool whole = true;                              // false: the bound ended it
};
RingSearch find_ring(std::size_t hosts, const Joined& joined);

struct OrderAdvice {
  std::optional<Finding> finding;  // set if another order makes a ring, and this one does not
  std::vector<std::size_t> order;  // the better order
  std::string note;                // set if no order that makes a ring was found
};
OrderAdvice advise_order(const Cabling& cabling, const std::vector<Measured>& measured);

}  // namespace mesh::doctor

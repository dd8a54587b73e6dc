#pragma once
// Finds an order of the hosts that makes every neighbour in NCCL's ring a neighbour by cable.
// Thread: any (pure). Bound: kOrderStepsMax steps of the search.

#include <cstddef>
#include <functional>
#include <optional>
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

}  // namespace mesh::doctor

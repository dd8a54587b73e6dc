#pragma once
// The steps of an all-reduce, from which members reach which without a host between them. All
// members compute them from equal input, so they need no agreement. Where everyone is everyone's
// neighbour, and wherever nothing else fits, one step joins all. Four members of a square of
// cables, or eight of a cube, take two or three steps, each with one neighbour: nothing goes over a
// host between, and a host sends its data two or three times instead of three or seven times.
// Thread: any (pure). Bound: kMembersMax members; the search for a cube tries a few thousand places
// at most.

#include "plugin/oneshot/memory.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace mesh::oneshot {

struct PlanStep {
  // In the order of operands, which is one order for all members of the step, so that all have
  // equal bits. Our own rank stands for what we have so far.
  std::vector<std::size_t> ranks;
  // The ring of the group's memory that has what we bring to the step. What a step before the last
  // computes lies in the ring of a member with which no step is made.
  std::size_t from = 0;
};

// By rank: a bit for each rank that it reaches without a host between.
using Neighbours = std::array<std::uint32_t, kMembersMax>;

std::vector<PlanStep> steps_of(std::size_t rank, std::size_t members, const Neighbours& neighbours);

}  // namespace mesh::oneshot

#pragma once
// Pairs rails that share no subnet, across routers. Thread: any (pure, but for what it asks).
// Bound: kRoutesAskedMax questions.

#include "src/topo/pairing.h"

#include <cstddef>
#include <span>
#include <vector>

namespace mesh::topo {

// Peers may have 64 rails of 8 addresses each, and each question is a system call.
inline constexpr std::size_t kRoutesAskedMax = 256;

// Returns pairs of the rails that are in no pair yet. The rules:
// - Rails of equal identity pair if the peer's host has a route from one of its rail's addresses to
//   one of ours that leaves by that rail. Where no identities are equal, the k-th rail pairs with
//   the k-th.
// - Where nobody can tell, because the net device is not visible, or because InfiniBand has no such
//   table, rails pair if there is no other pair at all.
// The two ends of a cable have no route to the ends of other cables, so a mesh of cables gets no
// pair here.
std::vector<RailPair> routed_pairs(std::span<const RailEnd> locals, std::span<const RailEnd> peers,
                                   std::span<const RailPair> paired, const AskReach& ask);

}  // namespace mesh::topo

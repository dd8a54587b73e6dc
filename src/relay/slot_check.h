#pragma once
// Checks whether a slot that a neighbour has filled is valid. Thread: any. Bound: none.

#include "src/relay/wire.h"

#include <cstdint>

namespace mesh::relay {

// The facts that the ring's owner knows about a slot.
struct SlotArrival {
  std::uint64_t number = 0;         // the slot's, counted from 0
  std::uint32_t written_bytes = 0;  // as its completion says
};

// Returns true if the payload lies within the slot as it was written, or within the payload ring,
// and the work request is no longer than the longest. The address and the key are for the far end's
// device to judge.
bool is_slot(const SlotHeader& header, const SlotArrival& arrival, const RingTarget& ring) noexcept;

}  // namespace mesh::relay

#pragma once
// The cost of hosts on the way, as the model finds it and as a formula expects it: rate and latency
// over none, one and two of them, and what is left to a middle host's own messages. Thread: one.

#include "perf/model/measure.h"
#include "perf/model/options.h"

#include <cstddef>
#include <cstdint>

namespace mesh::model {

// Returns the rate by formula. A relayed work request is a write into the next host's payload ring
// and a slot of 32 bytes behind it.
double relayed_gbytes_per_s(const FabricSpec& spec, std::size_t wr_bytes);
// Returns by formula the time that a middle host adds to a small message: the cable, the NIC's and
// the CPU's part, and the thread's round over its chains after half a round of waiting.
double hop_ns(const FabricSpec& spec, const CallCosts& calls, std::uint32_t chains);

// A ring of hosts, each of which sends slices to the next one. A part of each slice goes the other
// way round, over all other hosts, and is as large as ends at the same time. The gains tell how
// much faster a slice is, alone or with many in flight; 1: it is better not done. The other
// direction is idle but for the parts, of which each of its cables has one for every host but one.
// Each host on the way stores a part: the first whole, as its stripes arrive together, the others
// by stripes.
struct Ring {
  std::uint32_t hosts = 3;
  std::uint32_t stripes = 4;
};
double gain_both_ways(const Ring& ring, double slice_ns, double hop_ns);
double gain_both_ways_in_flight(const Ring& ring);

// Return false if an experiment failed; the reason was printed.
bool print_relays(const Options& options);
bool print_both_ways(const Options& options);

}  // namespace mesh::model

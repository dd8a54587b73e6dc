#pragma once
// What hosts on the way cost, as the model finds it and as a formula expects it: rate and latency
// over none, one and two of them, and what is left to a middle host's own messages. Thread: one.

#include "perf/model/measure.h"
#include "perf/model/options.h"

#include <cstddef>
#include <cstdint>

namespace mesh::model {

// ---- By hand. A relayed work request is a write into the next host's payload ring and a slot of
// 32 bytes behind it.
double relayed_gbytes_per_s(const FabricSpec& spec, std::size_t wr_bytes);
// What a host on the way adds to a small message: the cable, the NIC's and the CPU's part, and the
// thread's rounds over its chains, of which half a one is waited for.
double hop_ns(const FabricSpec& spec, const CallCosts& calls, std::uint32_t chains);

// A ring of so many hosts, each of which sends to the next one and, the other way round over all
// others, as large a part as ends at the same time: how much faster a slice is there, alone or with
// many in flight. The other direction is idle but for these parts, of which each cable there has
// one for every host but one. A part is stored by each host on the way: whole by the first, as its
// stripes arrive together, and then stripe by stripe. 1: it is better not done.
struct Ring {
  std::uint32_t hosts = 3;
  std::uint32_t stripes = 4;
};
double gain_both_ways(const Ring& ring, double slice_ns, double hop_ns);
double gain_both_ways_in_flight(const Ring& ring);

// False: an experiment failed; the reason was printed.
bool print_relays(const Options& options);
bool print_both_ways(const Options& options);

}  // namespace mesh::model

#pragma once
// What hosts on the way cost, as the model finds it and as a formula expects it: rate and latency
// over none, one and two of them, and what is left to a middle host's own messages. Thread: one.

#include "perf/model/measure.h"
#include "perf/model/options.h"

#include <cstdint>

namespace mesh::model {

// ---- By hand. A relayed work request is a write into the next host's payload ring and a slot of
// 32 bytes behind it.
double relayed_gbytes_per_s(const FabricSpec& spec, double wr_bytes);
// What a host on the way adds to a small message: the cable, the NIC's and the CPU's part, and the
// thread's rounds over its chains, of which half a one is waited for.
double hop_ns(const FabricSpec& spec, const CallCosts& calls, std::uint32_t chains);

bool print_relays(const Options& options);  // false: an experiment failed; the reason was printed

}  // namespace mesh::model

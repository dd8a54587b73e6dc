#pragma once
// Measures a pair of hosts in the model, neighbours or with hosts between: throughput with messages
// in flight, and latency one message at a time, alone or beside a large message on another channel.
// Thread: any, one world for each call. Bounds: those of Load.

#include "perf/model/world.h"
#include "perf/results/result.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace mesh::model {

enum class Direction : std::uint8_t { OneWay, Both };

struct Experiment {
  soft::FabricFile fabric;  // its first two hosts, or more with `via`
  TransferPolicy policy;
  CallCosts calls;
  std::uint32_t channels = 1;  // each carries the whole load
  Direction direction = Direction::OneWay;
  bool sites = false;      // each host names a site of its own
  std::uint32_t via = 0;   // how many hosts between the two measured ones carry
  bool both_ways = false;  // of a ring
  std::size_t last() const noexcept { return std::size_t{via} + 1; }
};

struct Throughput {
  double gbytes_per_s = 0;  // of payload, from the first host to the second, all channels together
  double messages_per_us = 0;
  double doorbells_per_message = 0;    // both hosts together
  double completions_per_message = 0;  // of sends, both hosts together
};

// Returns nothing if it fails; `why` says why.
std::optional<Throughput> measure_throughput(const Experiment& experiment, const Load& load,
                                             std::string& why);
// Measures one message at a time, from isend to the receiver's test, whatever the load says. With
// beside_bytes above 0, another channel sends one message of that size meanwhile, and its end ends
// the measurement.
std::optional<results::Latency> measure_latency(const Experiment& experiment, const Load& load,
                                                std::size_t beside_bytes, std::string& why);

// The rate of the last but one host to the last one, alone and while it also carries messages of
// the first host there: 10^9 bytes a second of each traffic.
struct Yielding {
  double alone = 0, beside = 0, carried = 0;
};
std::optional<Yielding> measure_yielding(const Experiment& experiment, const Load& own,
                                         const Load& carried, std::string& why);

// Measures a ring in which every host sends to the next one, or to both neighbours. Returns the
// average of such a flow in 10^9 bytes a second.
std::optional<double> measure_ring(const Experiment& experiment, const Load& load,
                                   std::string& why);

}  // namespace mesh::model

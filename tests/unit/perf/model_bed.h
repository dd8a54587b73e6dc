#pragma once
// Set-ups for tests of the model in one line, and the arithmetic of a wire for a second time: from
// RoCE's headers and not from the model, so that the two can disagree. Thread: the test's.

#include "perf/model/fabric_spec.h"
#include "perf/model/measure.h"
#include "src/base/log.h"
#include "tests/prelude.h"
#include "tuning/derive.h"

namespace mesh::model {

inline Experiment experiment_on(const Result<soft::FabricFile>& fabric,
                                const Settings& settings = {}) {
  set_log_level(LogLevel::Warn);
  EXPECT_TRUE(fabric.ok());
  Experiment experiment;
  experiment.fabric = *fabric;
  experiment.policy = tuning::derive_policy(traits_of(*fabric), settings);
  return experiment;
}

inline Experiment experiment_of(const FabricSpec& spec, const Settings& settings = {}) {
  return experiment_on(soft::parse(fabric_text(spec)), settings);
}

// Measures the rate after enough messages for the queue pairs to drift apart as far as they will.
inline Throughput throughput(const Experiment& experiment, std::size_t bytes,
                             std::uint32_t outstanding) {
  Load load{.bytes = bytes, .outstanding = outstanding};
  load.messages = bytes > (1u << 19) ? 800 : 2000;
  load.warmup = load.messages / 4;
  std::string why;
  const auto found = measure_throughput(experiment, load, why);
  EXPECT_TRUE(found.has_value()) << why;
  return found.value_or(Throughput{});
}

inline results::Latency latency_us(const Experiment& experiment, std::size_t bytes,
                                   std::size_t beside_bytes = 0) {
  std::string why;
  const auto found = measure_latency(experiment, {.bytes = bytes, .messages = 1000, .warmup = 100},
                                     beside_bytes, why);
  EXPECT_TRUE(found.has_value()) << why;
  return found.value_or(results::Latency{});
}

// ---- The wire, by hand.

// Ethernet, IPv4, UDP, BTH, ICRC, FCS, preamble, gap.
constexpr double kPacketBytes = 14 + 20 + 8 + 12 + 4 + 4 + 8 + 12;
constexpr double kReth = 16, kImm = 4, kRecord = 16;

// Returns the bytes on the wire for one message in `stripes` stripes of one work request each.
inline double wire_bytes(double bytes, double stripes, double mtu, double records = 0) {
  const double stripe = bytes / stripes;
  const double packets = static_cast<double>(static_cast<std::uint64_t>((stripe + mtu - 1) / mtu));
  return stripes * (stripe + packets * kPacketBytes + kReth + kImm) +
         records * (kRecord + kPacketBytes + kReth);
}

// Returns the goodput in 10^9 bytes of payload a second.
inline double goodput(double gbps, double mtu = 4096) {
  return gbps / 8 * mtu / (mtu + kPacketBytes);
}

inline void show(const char* what, double value, double bar) {
  std::printf("model: %-64s %9.3f   (bar %9.3f)\n", what, value, bar);
}

}  // namespace mesh::model

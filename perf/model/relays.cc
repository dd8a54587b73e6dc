#include "perf/model/relays.h"

#include "src/relay/wire.h"
#include "src/soft/wire_model.h"
#include "tuning/derive.h"

#include <cmath>
#include <cstdio>
#include <string>

namespace mesh::model {

namespace {

constexpr std::size_t kLarge = std::size_t{1} << 20, kSmall = 8;
constexpr std::uint32_t kRowsMax = 2;  // middle hosts

double slot_bytes(double payload) {
  return static_cast<double>(sizeof(relay::SlotHeader)) + payload +
         static_cast<double>(soft::kPacketOverheadBytes + soft::kFirstPacketBytes +
                             soft::kImmBytes);
}

double cable(const FabricSpec& spec) {  // 10^9 bytes of payload a second
  return spec.paths.front() / 8 * spec.mtu /
         (spec.mtu + static_cast<double>(soft::kPacketOverheadBytes));
}

struct Row {
  double gbytes_per_s = 0, latency_us = 0;
  std::uint32_t qps = 0;
  Yielding yielding;
};

bool measure_row(const Options& options, std::uint32_t via, Row* row) {
  FabricSpec spec = options.spec;
  spec.via = via;
  const auto fabric = soft::parse(fabric_text(spec));
  if (!fabric.ok()) return false;
  const Experiment experiment{.fabric = *fabric,
                              .policy = tuning::derive_policy(traits_of(*fabric), options.settings),
                              .calls = options.calls,
                              .via = via};
  const Load large{
      .bytes = kLarge, .messages = 800, .warmup = 200, .outstanding = options.outstanding};
  Load carried = large;
  carried.warmup = 2 * options.outstanding;
  row->qps = experiment.policy.qps;
  std::string why;
  const auto rate = measure_throughput(experiment, large, why);
  const auto latency =
      measure_latency(experiment, {.bytes = kSmall, .messages = 1000, .warmup = 100}, 0, why);
  if (rate) row->gbytes_per_s = rate->gbytes_per_s;
  if (latency) row->latency_us = latency->median_us;
  bool good = rate && latency;
  if (good && via > 0) {
    const auto yielding = measure_yielding(experiment, large, carried, why);
    if (yielding) row->yielding = *yielding;
    good = yielding.has_value();
  }
  if (!good) std::fprintf(stderr, "mesh_model: over %u hosts: %s\n", via, why.c_str());
  return good;
}

}  // namespace

double relayed_gbytes_per_s(const FabricSpec& spec, std::size_t wr_bytes) {
  const auto bytes = static_cast<double>(wr_bytes);
  const double packets = std::ceil(bytes / spec.mtu);
  const double wire = bytes + packets * static_cast<double>(soft::kPacketOverheadBytes) +
                      static_cast<double>(soft::kFirstPacketBytes) + slot_bytes(0);
  return spec.paths.front() / 8 * bytes / wire;
}

double hop_ns(const FabricSpec& spec, const CallCosts& calls, std::uint32_t chains) {
  const auto cpu =
      static_cast<double>(spec.completion_ns + calls.moved_ns + spec.post_ns + spec.doorbell_ns);
  const double rounds = 1.5 * chains * static_cast<double>(calls.chain_ns);
  const double wire = slot_bytes(kSmall) * 8 / spec.paths.front();
  return static_cast<double>(spec.delay_ns) + wire + cpu + rounds;
}

// With the part y of a slice of time 1: 1 - y = y (hosts - 1) + what it is stored + the hops.
double gain_both_ways(const Ring& ring, double slice_ns, double hop_ns) {
  const double via = ring.hosts - 2;
  const double stored = 1 + (via - 1) / ring.stripes;
  const double part = (1 - via * hop_ns / slice_ns) / (ring.hosts + stored);
  return part <= 0 ? 1 : 1 / (1 - part);
}

double gain_both_ways_in_flight(const Ring& ring) { return ring.hosts / (ring.hosts - 1.0); }

namespace {
void print_both_ways(const Options& options, std::uint32_t qps) {
  const double hop = hop_ns(options.spec, options.calls, 1 + qps);
  std::printf("#\n# both ways round, by formula: how much faster a ring's slice is\n");
  std::printf("# %-5s %9s %9s %9s %9s %12s\n", "hosts", "16 KiB", "64 KiB", "512 KiB", "4 MiB",
              "in flight");
  for (const std::uint32_t hosts : {3u, 4u, 6u}) {
    const Ring ring{.hosts = hosts, .stripes = qps};
    std::printf("  %-5u", hosts);
    for (const double bytes : {16384.0, 65536.0, 524288.0, 4194304.0})
      std::printf(" %9.2f", gain_both_ways(ring, bytes / cable(options.spec), hop));
    std::printf(" %12.2f\n", gain_both_ways_in_flight(ring));
  }
}
}  // namespace

bool print_relays(const Options& options) {
  const FabricSpec& spec = options.spec;
  std::printf("# mesh_model relays: MODEL, not measured: cables of %g Gb/s, MTU %u, %llu ns\n",
              spec.paths.front(), spec.mtu, static_cast<unsigned long long>(spec.delay_ns));
  std::printf("# %14s %9s %9s %9s %9s %9s %9s %9s %9s\n", "1 MiB", "of", "formula", "8 B", "of",
              "formula", "own", "of", "carried");
  std::printf("# %-4s %9s %9s %9s %9s %9s %9s %9s %9s %9s\n", "via", "(GB/s)", "cable", "(GB/s)",
              "(us)", "direct", "(us)", "(GB/s)", "alone", "(GB/s)");
  Row direct;
  for (std::uint32_t via = 0; via <= kRowsMax; ++via) {
    Row row;
    if (!measure_row(options, via, &row)) return false;
    if (via == 0) direct = row;
    const double expected_us =
        direct.latency_us + (via == 0 ? 0
                                      : 2e-3 * static_cast<double>(options.calls.end_ns) +
                                            via * hop_ns(spec, options.calls, 1 + row.qps) / 1000);
    std::printf("  %-4u %9.3f %8.1f%% %9.3f %9.3f %9.2f %9.3f", via, row.gbytes_per_s,
                100 * row.gbytes_per_s / cable(spec),
                via == 0 ? cable(spec) : relayed_gbytes_per_s(spec, kLarge / row.qps),
                row.latency_us, row.latency_us / direct.latency_us, expected_us);
    if (via > 0) {
      std::printf(" %9.3f %8.1f%% %9.3f", row.yielding.beside,
                  100 * row.yielding.beside / row.yielding.alone, row.yielding.carried);
    }
    std::printf("\n");
  }
  print_both_ways(options, direct.qps);
  return true;
}

}  // namespace mesh::model

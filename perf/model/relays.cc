#include "perf/model/relays.h"

#include "src/relay/wire.h"
#include "src/soft/wire_model.h"
#include "tuning/derive.h"

#include <cmath>
#include <cstdio>
#include <optional>
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
  if (latency) row->latency_us = latency->median;
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

// A part y of a slice of time 1 has 1 - y = y (hosts - 1) + the time to store it + the hops.
double gain_both_ways(const Ring& ring, double slice_ns, double hop_ns) {
  const double via = ring.hosts - 2;
  const double stored = 1 + (via - 1) / ring.stripes;
  const double part = (1 - via * hop_ns / slice_ns) / (ring.hosts + stored);
  return part <= 0 ? 1 : 1 / (1 - part);
}

double gain_both_ways_in_flight(const Ring& ring) { return ring.hosts / (ring.hosts - 1.0); }

namespace {
constexpr std::size_t kSlices[] = {65536, 524288, 4194304};

// Returns how much faster such a ring is with both ways, or nothing after the reason was printed.
std::optional<double> measure_gain(const Options& options, std::uint32_t hosts, const Load& load,
                                   Direction direction) {
  FabricSpec spec = options.spec;
  spec.via = hosts - 2;
  spec.ring = true;
  const auto fabric = soft::parse(fabric_text(spec));
  if (!fabric.ok()) return std::nullopt;
  Experiment experiment{.fabric = *fabric,
                        .policy = tuning::derive_policy(traits_of(*fabric), options.settings),
                        .calls = options.calls,
                        .direction = direction};
  double rates[2] = {};
  for (const bool both_ways : {false, true}) {
    experiment.both_ways = both_ways;
    std::string why;
    const auto rate = measure_ring(experiment, load, why);
    if (!rate) std::fprintf(stderr, "mesh_model: a ring of %u: %s\n", hosts, why.c_str());
    if (!rate) return std::nullopt;
    rates[both_ways ? 1 : 0] = *rate;
  }
  return rates[1] / rates[0];
}

// One slice at a time, eight in flight, and eight in flight to either neighbour.
struct Traffic {
  std::uint32_t outstanding = 1;
  Direction direction = Direction::OneWay;
};
constexpr Traffic kTraffic[] = {{1}, {8}, {8, Direction::Both}};

double by_formula(const Options& options, const Ring& ring, const Traffic& traffic,
                  std::size_t bytes) {
  const double hop = hop_ns(options.spec, options.calls, 1 + ring.stripes);
  if (traffic.direction == Direction::Both) return 1;  // nothing is idle
  return traffic.outstanding > 1
             ? gain_both_ways_in_flight(ring)
             : gain_both_ways(ring, static_cast<double>(bytes) / cable(options.spec), hop);
}
}  // namespace

bool print_both_ways(const Options& options) {
  std::printf("# mesh_model both ways round: MODEL, not measured: cables of %g Gb/s\n",
              options.spec.paths.front());
  std::printf("# speed-up of a ring's slices: measured; by formula\n");
  std::printf("# %-6s %8s  %13s %13s %13s\n", "hosts", "slice", "alone", "8 in flight",
              "8, to both");
  for (const std::uint32_t hosts : {3u, 4u}) {
    const Ring ring{.hosts = hosts};
    for (const std::size_t bytes : kSlices) {
      std::printf("  %-6u %4zu KiB", hosts, bytes >> 10);
      for (const Traffic& traffic : kTraffic) {
        const Load load{
            .bytes = bytes, .messages = 600, .warmup = 100, .outstanding = traffic.outstanding};
        const auto gain = measure_gain(options, hosts, load, traffic.direction);
        if (!gain) return false;
        std::printf("  %5.2f; %5.2f", *gain, by_formula(options, ring, traffic, bytes));
        std::fflush(stdout);
      }
      std::printf("\n");
    }
  }
  return true;
}

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
  return true;
}

}  // namespace mesh::model

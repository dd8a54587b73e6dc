// Bars that the engine must reach in the model: the wire's goodput over capped queue pairs, halves
// and unequal paths; no loss by fewer signaled requests; small messages beside a large one.

#include "tests/unit/perf/model_bed.h"

namespace mesh::model {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

struct WireBar {
  const char* what;
  FabricSpec spec;
  std::size_t bytes;
  double gbps;  // of all cables together
  double bar;   // share of their goodput, eight messages in flight
};

TEST(ModelBars, CablesAreFilled) {
  for (const WireBar& each : {
           WireBar{"one QP has 64 of 100 Gb/s, 1 MiB", {.qp_cap = 64}, kMiB, 100, 0.97},
           WireBar{"one QP has 64 of 100 Gb/s, 64 KiB", {.qp_cap = 64}, 65536, 100, 0.90},
           // Eight messages of 4 KiB just fill a cable, if none is passed by later ones.
           WireBar{"100 Gb/s, 4 KiB", {}, 4096, 100, 0.98},
           WireBar{"halves of 109 Gb/s", {.paths = {200}, .half = 109}, kMiB, 200, 0.97},
           WireBar{"400 Gb/s", {.paths = {400}}, kMiB, 400, 0.97},
           WireBar{"unequal", {.paths = {100, 50, 25}}, kMiB, 175, 0.95},
           // All ports claim 100 Gb/s, so only completed bytes tell the paths apart. If the claims
           // were believed, one message at a time would reach 0.43 and 0.23 of the sum.
           WireBar{"slower than ports", {.paths = {100, 50, 25}, .port = 100}, kMiB, 175, 0.95},
           WireBar{"a sick one", {.paths = {100, 13}, .port = 100}, kMiB, 113, 0.95},
       }) {
    const double rate = throughput(experiment_of(each.spec), each.bytes, 8).gbytes_per_s;
    const double share = rate / goodput(each.gbps);
    show(each.what, share, each.bar);
    EXPECT_GE(share, each.bar) << each.what;
    EXPECT_LE(share, 1.002) << each.what;
  }
}

// Whatever the size, a cap of 64 % on each queue pair costs nothing where messages are in flight.
TEST(ModelBars, CappedQueuePairsCarryWhatUncappedOnesDo) {
  for (const double gbps : {100.0, 200.0, 400.0}) {
    const Experiment capped = experiment_of({.paths = {gbps}, .qp_cap = 0.64 * gbps});
    const Experiment uncapped = experiment_of({.paths = {gbps}});
    for (const std::size_t kib : {1u, 2u, 4u, 8u, 16u, 64u, 256u}) {
      for (const std::uint32_t outstanding : {8u, 32u}) {
        const double share = throughput(capped, kib * 1024, outstanding).gbytes_per_s /
                             throughput(uncapped, kib * 1024, outstanding).gbytes_per_s;
        show(("a: " + std::to_string(static_cast<int>(gbps)) + " Gb/s, 64 % a QP, " +
              std::to_string(kib) + " KiB at " + std::to_string(outstanding) + ", of uncapped")
                 .c_str(),
             share, 0.97);
        EXPECT_GE(share, 0.97) << gbps << " Gb/s, " << kib << " KiB, " << outstanding;
      }
    }
  }
}

TEST(ModelBars, AMessageAloneIsHardlySlowerOverCappedQueuePairs) {
  for (const double gbps : {100.0, 200.0, 400.0}) {
    const Experiment capped = experiment_of({.paths = {gbps}, .qp_cap = 0.64 * gbps});
    const Experiment uncapped = experiment_of({.paths = {gbps}});
    for (const std::size_t kib : {1u, 8u, 16u, 32u, 64u, 128u, 1024u}) {
      const double share = throughput(capped, kib * 1024, 1).gbytes_per_s /
                           throughput(uncapped, kib * 1024, 1).gbytes_per_s;
      show(("a: " + std::to_string(static_cast<int>(gbps)) + " Gb/s, 64 % a QP, " +
            std::to_string(kib) + " KiB alone, of uncapped")
               .c_str(),
           share, 0.9);
      EXPECT_GE(share, 0.9) << gbps << " Gb/s, " << kib << " KiB";
    }
  }
}

// A path's bytes in flight are fewer than such a message has, so its stripes share what comes free.
// If some ended first, the last one would go at the rate of one queue pair.
TEST(ModelBars, TheStripesOfAVeryLargeMessageEndTogether) {
  const Experiment capped = experiment_of({.paths = {100.0}, .qp_cap = 64.0});
  for (const std::uint32_t outstanding : {1u, 8u}) {
    const Load load{
        .bytes = 64u << 20, .messages = 24, .warmup = outstanding, .outstanding = outstanding};
    std::string why;
    const auto found = measure_throughput(capped, load, why);
    ASSERT_TRUE(found.has_value()) << why;
    const double share = found->gbytes_per_s / goodput(100);
    show(("a: 100 Gb/s, 64 % a QP, 64 MiB at " + std::to_string(outstanding) + ", of goodput")
             .c_str(),
         share, 0.97);
    EXPECT_GE(share, 0.97) << outstanding;
  }
}

struct SlotBar {
  const char* fabric;
  double gbps;  // of the cable or of the slots, whichever is less
  Direction direction;
  double bar;
};

// Two ports behind both x4 links of a DGX Spark carry no more than these, and the engine fills them
// with any cabling. Directions are apart.
TEST(ModelBars, CablesAndTheSlotsBehindThemAreFilled) {
  for (const SlotBar& each :
       std::initializer_list<SlotBar>{{"spark-pair", 200, Direction::OneWay, 0.97},
                                      {"spark-pair", 200, Direction::Both, 0.95},
                                      {"spark-pair2", 218, Direction::OneWay, 0.97}}) {
    Experiment experiment =
        experiment_on(soft::load(fmt::format(MESH_FABRIC_DIR "/model-{}.json", each.fabric)));
    experiment.direction = each.direction;
    for (std::size_t kib = 64; kib <= 65536; kib *= 4) {
      Load load{.bytes = kib * 1024, .messages = 32, .warmup = 8, .outstanding = 8};
      if (kib <= 4096) load.messages = 320, load.warmup = 80;
      std::string why;
      const auto found = measure_throughput(experiment, load, why);
      ASSERT_TRUE(found.has_value()) << why;
      const double share = found->gbytes_per_s / goodput(each.gbps);
      const char* const ways = each.direction == Direction::Both ? "both ways at once" : "one way";
      show(fmt::format("a: {}, {} KiB {}, of {} Gb/s", each.fabric, kib, ways, each.gbps).c_str(),
           share, each.bar);
      EXPECT_GE(share, each.bar) << each.fabric << ", " << kib << " KiB " << ways;
      EXPECT_LE(share, 1.01) << each.fabric << ", " << kib << " KiB " << ways;
    }
  }
}

// A ring one way is bound by its cables, and two opposite rings by the slots, as each host sends to
// both neighbours.
TEST(ModelBars, RingsAreAsFastAsCablesAndSlotsLetThem) {
  for (const char* const ring : {"triangle", "ring4"}) {
    for (const bool opposite : {false, true}) {
      Experiment experiment =
          experiment_on(soft::load(fmt::format(MESH_FABRIC_DIR "/model-spark-{}.json", ring)));
      experiment.direction = opposite ? Direction::Both : Direction::OneWay;
      const double bar = opposite ? 0.9 : 0.97;
      for (const std::size_t kib : {64u, 1024u}) {
        std::string why;
        const auto rate = measure_ring(
            experiment, {.bytes = kib * 1024, .messages = 160, .warmup = 40, .outstanding = 8},
            why);
        ASSERT_TRUE(rate.has_value()) << why;
        const double share = *rate / (opposite ? goodput(218) / 2 : goodput(200));
        show(fmt::format("a: {} {}, {} KiB, of what binds", ring,
                         opposite ? "opposite rings" : "one way", kib)
                 .c_str(),
             share, bar);
        EXPECT_GE(share, bar) << ring << ", " << kib << " KiB";
        EXPECT_LE(share, 1.01) << ring << ", " << kib << " KiB";
      }
    }
  }
}

// Returns how much faster slices of 1 MiB, four in flight, go round such a ring with
// NCCL_MESH_BOTH_WAYS=1. Each host has two ports of 100 Gb/s in a slot of so many Gb/s.
double gain_of_both_ways(std::uint32_t hosts, double slot_gbps, Direction direction) {
  FabricSpec spec;
  spec.via = hosts - 2;
  spec.ring = true;
  Experiment experiment = experiment_on(soft::parse(fabric_text(spec)));
  for (soft::HostSpec& host : experiment.fabric.hosts) {
    host.slots.push_back({"slot", slot_gbps});
    for (soft::NicSpec& nic : host.nics) nic.slot = 0;
  }
  experiment.direction = direction;
  double rates[2] = {};
  for (const bool both_ways : {false, true}) {
    experiment.both_ways = both_ways;
    std::string why;
    rates[both_ways ? 1 : 0] =
        measure_ring(experiment, {.bytes = kMiB, .messages = 160, .warmup = 40, .outstanding = 4},
                     why)
            .value_or(0);
    EXPECT_EQ(why, "");
  }
  return rates[1] / rates[0];
}

// The way round is used where cables are idle and slots have room, and costs nothing elsewhere.
TEST(ModelBars, BothWaysRoundGainWhereTheyHaveRoomAndCostNothingElsewhere) {
  struct Row {
    std::uint32_t hosts;
    double slot_gbps;
    Direction direction;
    double bar;
  };
  constexpr double kRoom = 252, kNarrow = 109;
  for (const Row& each : std::initializer_list<Row>{{3, kRoom, Direction::OneWay, 1.28},
                                                    {4, kRoom, Direction::OneWay, 1.10},
                                                    {3, kRoom, Direction::Both, 0.97},
                                                    {4, kRoom, Direction::Both, 0.97},
                                                    {3, kNarrow, Direction::OneWay, 0.97}}) {
    const double gain = gain_of_both_ways(each.hosts, each.slot_gbps, each.direction);
    const std::string what =
        fmt::format("b: {} hosts, slots of {} Gb/s, {}", each.hosts, each.slot_gbps,
                    each.direction == Direction::Both ? "opposite rings" : "one way");
    show((what + ", of one way round").c_str(), gain, each.bar);
    EXPECT_GE(gain, each.bar) << what;
  }
}

// Relayed bytes are written to the middle host's memory and read from it again. Both directions of
// messages meet in each direction of its slot.
TEST(ModelBars, TheSlotOfAMiddleHostCarriesWhatItRelays) {
  Experiment experiment = experiment_of({.via = 1});
  experiment.via = 1;
  soft::HostSpec& middle = experiment.fabric.hosts[1];
  middle.slots.push_back({"s", 50});
  for (soft::NicSpec& nic : middle.nics) nic.slot = 0;
  const double one_way = throughput(experiment, kMiB, 8).gbytes_per_s / goodput(50);
  experiment.direction = Direction::Both;
  const double both = throughput(experiment, kMiB, 8).gbytes_per_s / goodput(50);
  show("   1 MiB over a host whose slot has 50 Gb/s, of it", one_way, 0.94);
  show("   both ways at once, each, of it", both, 0.47);
  EXPECT_GE(one_way, 0.94);
  EXPECT_LE(one_way, 1);
  EXPECT_GE(both, 0.47);
  EXPECT_LE(both, 0.505);
}

// At 5 ms one way a round trip holds 125 MB, and a path within a site may have 8 MiB in flight.
TEST(ModelBars, ALongPathBetweenSitesIsFilled) {
  Experiment experiment = experiment_of({.delay_ns = 5'000'000});
  const auto share = [&experiment] {
    std::string why;
    const auto found = measure_throughput(
        experiment, {.bytes = 32 * kMiB, .messages = 100, .warmup = 25, .outstanding = 16}, why);
    EXPECT_TRUE(found.has_value()) << why;
    return found.value_or(Throughput{}).gbytes_per_s / goodput(100);
  };
  const double without = share();
  experiment.sites = true;
  const double with = share();
  show("f: 100 Gb/s, 5 ms one way, between sites, of goodput", with, 0.95);
  show("f: the same without the sites' window, of goodput", without, 0);
  EXPECT_GE(with, 0.95);
  EXPECT_LE(without, 0.1);
}

// Rings a doorbell for each message if the policy can otherwise let several share one.
template <typename Policy>
void ring_for_each(Policy& policy) {
  if constexpr (requires { policy.batch; }) policy.batch = 1;
}

// Signals every work request and rings a doorbell for each message, to compare with the defaults.
Experiment without_savings() {
  Settings settings;
  settings.signal_interval = 1;
  Experiment experiment = experiment_of({}, settings);
  ring_for_each(experiment.policy);
  return experiment;
}

// With many channels a request that waits for the next call on its own channel waits for a round of
// all other channels.
TEST(ModelBars, SavingsCostNoThroughput) {
  Experiment with = experiment_of({}), without = without_savings();
  for (const auto& [channels, bytes] : std::initializer_list<std::pair<std::uint32_t, std::size_t>>{
           {1, 8}, {1, 65536}, {1, 524288}, {4, 8}, {16, 8}}) {
    with.channels = without.channels = channels;
    for (const std::uint32_t outstanding : {1u, 2u, 4u, 8u}) {
      const double share = throughput(with, bytes, outstanding).gbytes_per_s /
                           throughput(without, bytes, outstanding).gbytes_per_s;
      const std::string what = fmt::format("d: {} B at {} on {} channels, of that without savings",
                                           bytes, outstanding, channels);
      show(what.c_str(), share, 0.98);
      EXPECT_GE(share, 0.98) << what;
    }
  }
}

TEST(ModelBars, SavingsCostNoLatency) {
  const Experiment with = experiment_of({}), without = without_savings();
  for (const std::size_t bytes : {std::size_t{8}, std::size_t{65536}, std::size_t{524288}}) {
    const double share = latency_us(with, bytes).median / latency_us(without, bytes).median;
    show(("b: latency of " + std::to_string(bytes) + " B, of that without savings").c_str(), share,
         1.03);
    EXPECT_LE(share, 1.03) << bytes << " bytes";
  }
}

TEST(ModelBars, SmallMessagesPassALargeOne) {
  constexpr std::size_t kBig = std::size_t{1} << 30;
  const Experiment experiment = experiment_of({.quantum_bytes = 4096});
  const double alone_us = latency_us(experiment, 2048).median;
  const double small_us = latency_us(experiment, 2048, kBig).p99;
  const double medium_us = latency_us(experiment, 65536, kBig).p99;
  // The bytes that the default policy lets one path have in flight, over the wire's rate.
  const double cap_us = 8.0 * kMiB / (goodput(100) * 1000);
  show("e: 2 KiB beside 1 GiB, p99 of unloaded", small_us / alone_us, 3);
  show("e: 64 KiB beside 1 GiB, p99 of in-flight cap over rate", medium_us / cap_us, 4);
  EXPECT_LE(small_us, 3 * alone_us);
  EXPECT_LE(medium_us, 4 * cap_us);
  const Experiment coarse = experiment_of({.quantum_bytes = 512 * 1024});
  show("   the same with a quantum of 512 KiB, 2 KiB",
       latency_us(coarse, 2048, kBig).p99 / alone_us, 0);
  show("   the same with a quantum of 512 KiB, 64 KiB",
       latency_us(coarse, 65536, kBig).p99 / cap_us, 0);
}

}  // namespace
}  // namespace mesh::model

// The cost of middle hosts in the model, compared with arithmetic by hand: rate, latency, and the
// rate that a middle host's own messages keep.

#include "perf/model/relays.h"
#include "tests/unit/perf/model_bed.h"

#include <cstdint>

namespace mesh::model {
namespace {

constexpr std::size_t kMessage = std::size_t{1} << 20;

Experiment over(std::uint32_t via, const Settings& settings = {}) {
  Experiment experiment = experiment_of({.via = via}, settings);
  experiment.via = via;
  return experiment;
}

TEST(ModelRelay, OneMiddleHostCarriesNineTenthsOfTheCable) {
  const double one = throughput(over(1), kMessage, 8).gbytes_per_s / goodput(100);
  const double two = throughput(over(2), kMessage, 8).gbytes_per_s / goodput(100);
  show("e: over one host, 1 MiB at 8, of the cable", one, 0.90);
  show("e: over two hosts, 1 MiB at 8, of the cable", two, 0.90);
  EXPECT_GE(one, 0.90);
  EXPECT_GE(two, 0.90);
  const double most = relayed_gbytes_per_s({}, kMessage / 4) / goodput(100);
  EXPECT_LE(one, most + 1e-4) << "a slot for each work request costs its packet";
}

TEST(ModelRelay, AMiddleHostAddsWhatTheFormulaSays) {
  const double direct = latency(over(0), 8).median_us, one = latency(over(1), 8).median_us,
               two = latency(over(2), 8).median_us;
  show("e: over one host, 8 B, of the direct latency", one / direct, 2.6);
  show("   over two hosts, 8 B, of the direct latency", two / direct, 0);
  EXPECT_LE(one, 2.6 * direct);
  const CallCosts calls;
  const double hop_us = hop_ns({}, calls, 1 + over(1).policy.qps) / 1000;
  const double ends_us = 2e-3 * static_cast<double>(calls.end_ns);
  show("   over one host, 8 B, us (bar: the formula's)", one, direct + ends_us + hop_us);
  EXPECT_NEAR(one, direct + ends_us + hop_us, 0.2 * hop_us);
  EXPECT_NEAR(two, direct + ends_us + 2 * hop_us, 0.2 * hop_us);
}

double kept(const Experiment& experiment, std::size_t own_bytes, std::size_t carried_bytes) {
  std::string why;
  const auto found = measure_yielding(
      experiment, {.bytes = own_bytes, .messages = 300, .warmup = 50, .outstanding = 8},
      {.bytes = carried_bytes, .messages = 300, .warmup = 20, .outstanding = 8}, why);
  EXPECT_TRUE(found.has_value()) << why;
  if (!found) return 0;
  EXPECT_GT(found->carried, 0.1 * found->alone) << "and what is carried does not starve";
  return found->beside / found->alone;
}

TEST(ModelRelay, OwnMessagesOfAMiddleHostKeepThreeQuarters) {
  for (const std::uint32_t via : {1u, 2u}) {
    const double share = kept(over(via), kMessage, kMessage);
    show(("e: own messages beside carried ones, 1 MiB each, over " + std::to_string(via)).c_str(),
         share, 0.75);
    EXPECT_GE(share, 0.75) << via;
  }
}

TEST(ModelRelay, BothWaysRoundGainLessThanTheirRateWhereASliceIsAlone) {
  const Ring three{.hosts = 3}, four{.hosts = 4};
  EXPECT_DOUBLE_EQ(gain_both_ways_in_flight(three), 1.5);
  EXPECT_NEAR(gain_both_ways(three, 1e12, 1000), 4.0 / 3, 1e-6) << "stored once";
  EXPECT_NEAR(gain_both_ways(four, 1e12, 1000), 5.25 / 4.25, 1e-6);
  EXPECT_EQ(gain_both_ways(four, 2000, 1000), 1) << "the hops alone take as long";
  EXPECT_LT(gain_both_ways(three, 5000, 1000), gain_both_ways(three, 50'000, 1000));
}

// Returns the gain by both ways round in a ring in which every host sends to the next one.
double gain(std::uint32_t hosts, std::size_t bytes, std::uint32_t outstanding) {
  Experiment experiment = experiment_of({.via = hosts - 2, .ring = true});
  double rates[2] = {};
  for (const bool both_ways : {false, true}) {
    experiment.both_ways = both_ways;
    std::string why;
    const auto rate = measure_ring(
        experiment, {.bytes = bytes, .messages = 200, .warmup = 50, .outstanding = outstanding},
        why);
    EXPECT_TRUE(rate.has_value()) << why;
    rates[both_ways ? 1 : 0] = rate.value_or(0);
  }
  return rates[1] / rates[0];
}

TEST(ModelRelay, BothWaysRoundAreFasterByMostOfWhatTheFormulaSays) {
  const Ring three{.hosts = 3}, four{.hosts = 4};
  const double best3 = gain_both_ways_in_flight(three), best4 = gain_both_ways_in_flight(four);
  const double three_hosts = gain(3, kMessage, 8), four_hosts = gain(4, kMessage, 8);
  std::printf("model: by formula %.3f and %.3f\n", best3, best4);
  show("both ways round a ring of three, 1 MiB at 8", three_hosts, 1.4);
  show("both ways round a ring of four, 1 MiB at 8", four_hosts, 1.22);
  EXPECT_GE(three_hosts, 1.4);
  EXPECT_GE(four_hosts, 1.22);
  EXPECT_LE(three_hosts, best3 + 0.01);
  EXPECT_LE(four_hosts, best4 + 0.01);
  const double alone = gain(3, kMessage / 2, 1);
  show("both ways round a ring of three, 512 KiB alone", alone, 1.2);
  EXPECT_GE(alone, 1.2);
}

TEST(ModelRelay, SameInputSameFigures) {
  const Throughput first = throughput(over(1), 100'000, 3),
                   second = throughput(over(1), 100'000, 3);
  EXPECT_EQ(first.gbytes_per_s, second.gbytes_per_s);
  EXPECT_EQ(latency(over(1), 2048).p99_us, latency(over(1), 2048).p99_us);
}

}  // namespace
}  // namespace mesh::model

// The model compared with times computed by hand: the time of a message, and the costs of a queue
// pair's cap, small stripes and an even split.

#include "perf/model/groups.h"
#include "perf/model/in_order.h"
#include "perf/model/relays.h"
#include "tests/unit/perf/model_bed.h"

#include <tbb/global_control.h>

namespace mesh::model {
namespace {

TEST(Model, ASmallMessageTakesTheSumOfItsParts) {
  const FabricSpec spec;
  const Experiment experiment = experiment_of(spec);
  const CallCosts calls;
  const double wire_ns = (8 + kPacketBytes + kReth + kImm) / 12.5;
  const double sum_ns =
      static_cast<double>(calls.start_ns + calls.test_ns) + 75 + 40 + wire_ns + 600 + 20;
  const results::Latency figures = latency_us(experiment, 8);
  EXPECT_GE(figures.min * 1000, sum_ns - 1);
  EXPECT_LE(figures.median * 1000, sum_ns + static_cast<double>(calls.test_ns) + 1)
      << "it waits for a poll at most";
  EXPECT_EQ(figures.samples, 900u);
}

// The NIC must first read a work request of a message that is not inline, and the payload takes
// time on the wire.
TEST(Model, AMessageThatIsNotInlineWaitsForTheFetch) {
  const results::Latency small = latency_us(experiment_of({}), 8),
                         page = latency_us(experiment_of({}), 2048);
  const double more_ns = 350 + (2048 - 8) / 12.5;
  EXPECT_NEAR((page.min - small.min) * 1000, more_ns, 46) << "to within one poll";
  Settings settings;
  settings.inline_bytes = 0;
  EXPECT_NEAR((latency_us(experiment_of({}, settings), 8).min - small.min) * 1000, 350, 46);
}

TEST(Model, SameInputSameFigures) {
  const Experiment experiment = experiment_of({.paths = {100, 25}});
  const Throughput first = throughput(experiment, 100'000, 3),
                   second = throughput(experiment, 100'000, 3);
  EXPECT_EQ(first.gbytes_per_s, second.gbytes_per_s);
  EXPECT_EQ(first.doorbells_per_message, second.doorbells_per_message);
  const results::Latency one = latency_us(experiment, 2048, 64 << 20),
                         two = latency_us(experiment, 2048, 64 << 20);
  EXPECT_EQ(one.p99, two.p99);
  EXPECT_EQ(one.samples, two.samples);
}

// A sweep runs its sizes in parallel. Its figures equal those of one after the other, in order.
TEST(InOrder, FindsWhatOneAfterTheOtherFinds) {
  const Experiment experiment = experiment_of({.paths = {100, 25}});
  const auto sweep = [&](int threads) {
    const tbb::global_control limit(tbb::global_control::max_allowed_parallelism,
                                    static_cast<std::size_t>(threads));
    std::vector<double> figures;
    const auto work = [&](std::size_t i) {
      const std::size_t bytes = std::size_t{8} << (3 * (i / 2));
      return i % 2 == 0 ? throughput(experiment, bytes, 3).gbytes_per_s
                        : latency_us(experiment, bytes).p99;
    };
    EXPECT_TRUE(in_order(12, work, [&](std::size_t i, double figure) {
      EXPECT_EQ(i, figures.size());
      figures.push_back(figure);
      return true;
    }));
    return figures;
  };
  const std::vector<double> alone = sweep(1);
  ASSERT_EQ(alone.size(), 12u);
  for (const int threads : {2, 4, 8}) EXPECT_EQ(sweep(threads), alone) << threads << " threads";
}

TEST(InOrder, EndsWithTheFirstThatIsRefused) {
  std::vector<std::size_t> taken;
  const auto work = [](std::size_t i) { return i; };
  EXPECT_FALSE(in_order(1000, work, [&](std::size_t i, std::size_t) {
    taken.push_back(i);
    return i < 5;
  }));
  EXPECT_EQ(taken, (std::vector<std::size_t>{0, 1, 2, 3, 4, 5}));
  EXPECT_TRUE(in_order(0, work, [](std::size_t, std::size_t) { return false; }));
}

TEST(Model, PacketsCostTheirHeaders) {
  for (const std::uint32_t mtu : {1024u, 4096u}) {
    const double rate = throughput(experiment_of({.mtu = mtu}), 65536, 8).gbytes_per_s;
    EXPECT_NEAR(rate, 12.5 * 65536 / wire_bytes(65536, 1, mtu), 0.002 * 12.5) << mtu;
  }
}

TEST(Model, OneQueuePairGivesItsCap) {
  Settings settings;
  settings.qps = 1;
  // A message of 1 MiB is two work requests.
  const double expected = 64.0 / 8 * 1048576 / wire_bytes(1048576, 2, 4096, 1);
  const double rate = throughput(experiment_of({.qp_cap = 64}, settings), 1 << 20, 8).gbytes_per_s;
  show("control: 100 Gb/s, 1 QP at 64 Gb/s, 1 MiB, GB/s", rate, expected);
  EXPECT_NEAR(rate / expected, 1, 0.01);
}

// All ports claim one speed, and with one message at a time nothing in flight tells the paths
// apart. The split is even, at the pace of the slowest path: three times 25 Gb/s of 175.
TEST(Model, AnEvenSplitWaitsForTheSlowestPath) {
  const double rate =
      throughput(experiment_of({.paths = {100, 50, 25}, .port = 100}), 4 << 20, 1).gbytes_per_s;
  show("control: even split over 100 + 50 + 25 Gb/s, of their sum", rate / goodput(175),
       3 * 25.0 / 175);
  EXPECT_NEAR(rate / goodput(175), 3 * 25.0 / 175, 0.01);
}

// Four stripes of 16 KiB carry four announcements, one stripe of 64 KiB carries one.
TEST(Model, SmallStripesLoseWhatTheyAddToTheWire) {
  Settings settings;
  settings.stripe_bytes = 16384;
  const double whole = throughput(experiment_of({}), 65536, 8).gbytes_per_s;
  const double small = throughput(experiment_of({}, settings), 65536, 8).gbytes_per_s;
  const double expected = wire_bytes(65536, 1, 4096) / wire_bytes(65536, 4, 4096);
  show("control: 64 KiB in stripes of 16 KiB, of whole ones", small / whole, expected);
  EXPECT_NEAR(small / whole, expected, 0.0003);
  EXPECT_LT(expected, 0.9994);
}

// More work requests and doorbells precede the last byte. They delay a single message where the
// wire carries a stripe in less time than the CPU needs to post one.
TEST(Model, SmallStripesMakeASingleMessageLate) {
  Settings whole, small;
  whole.qps = 1;
  small.stripe_bytes = 4096;
  const double late_us = latency_us(experiment_of({.paths = {400}}, small), 16384).median -
                         latency_us(experiment_of({.paths = {400}}, whole), 16384).median;
  show("control: 16 KiB in stripes of 4 KiB, later than whole, us", late_us, 0.02);
  EXPECT_GT(late_us, 0.02);
  EXPECT_LT(late_us, 0.6) << "four work requests and doorbells are 460 ns of CPU, one and one 115";
}

// The bar of one-shot all-reduce in the model.

// From NCCL's call to the last host's end, with the sums.
TEST(ModelGroups, OneShotAllReducesOfFourHostsTakeAFewMicroseconds) {
  Options options;
  options.spec.paths = {200};
  const GroupPoint mesh = measure_group(options, "full-mesh", 4, 48 * 1024);
  const GroupPoint ring = measure_group(options, "ring", 4, 48 * 1024);
  EXPECT_EQ(mesh.steps, 1u) << mesh.why;
  EXPECT_EQ(ring.steps, 2u) << ring.why;
  show("one-shot: 48 KiB, full mesh of four at 200 Gb/s, us", mesh.us, 15);
  show("one-shot: 48 KiB, ring of four at 200 Gb/s, us", ring.us, 20);
  EXPECT_LE(mesh.us, 15);
  EXPECT_LE(ring.us, 20);
}

// The cost of middle hosts in the model, compared with arithmetic by hand: rate, latency, and the
// rate that a middle host's own messages keep.
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
  const double direct = latency_us(over(0), 8).median, one = latency_us(over(1), 8).median,
               two = latency_us(over(2), 8).median;
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

}  // namespace
}  // namespace mesh::model

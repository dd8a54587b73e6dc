// The small simulator: many seeds, each another policy, another fabric and another order of turns. A failing seed prints
// itself; --seed S and --seeds N choose what is run.

#include "tests/sim/reference.h"

#include "src/base/log.h"

#include <string>

namespace mesh::sim {
namespace {

struct Seeds {
  std::uint64_t first = 1;
  std::uint64_t count = 0;  // 0: each test's own
};
Seeds g_seeds;

std::string fabric_of(std::uint64_t seed) {
  const std::string link = seed % 3 == 0 ? R"(,"gbps":10,"delay_us":1)" : R"(,"delay_us":1)";
  std::string hosts_a = R"({"name":"n0","address":"10.0.1.1/24"})", hosts_b = R"({"name":"n0","address":"10.0.1.2/24"})";
  std::string links = R"({"ends":["a/n0","b/n0"])" + link + "}";
  if (seed % 2 == 0) {  // two halves
    hosts_a += R"(,{"name":"n1","address":"10.0.2.1/30"})";
    hosts_b += R"(,{"name":"n1","address":"10.0.2.2/30"})";
    links += R"(,{"ends":["a/n1","b/n1"])" + link + "}";
  }
  return R"({"name":"sim)" + std::to_string(seed) + R"(","hosts":[{"name":"a","nics":[)" + hosts_a + R"(]},{"name":"b","nics":[)" +
         hosts_b + R"(]}],"links":[)" + links + "]}";
}

void arm_faults(World& world, std::uint64_t seed) {
  if (seed % 4 == 1) return;
  for (Host& host : world.hosts) {
    soft::Fault fault;
    fault.kind = soft::FaultKind::Reorder;
    fault.delay_ns = 1000 + world.random(50'000);
    fault.seed = seed;
    ASSERT_TRUE(host.provider->faults().arm(fault).ok());
  }
}

void run_traffic(std::uint64_t seed) {
  World world(seed, fabric_of(seed));
  arm_faults(world, seed);
  std::vector<std::unique_ptr<ReferenceChannel>> channels;
  const std::uint64_t count = 1 + world.random(4);
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::size_t from = world.random(2);
    const World::Pair pair = world.connect(from, world.random(5) == 0 ? from : 1 - from);
    ASSERT_TRUE(pair.send != nullptr && pair.receive != nullptr);
    channels.push_back(std::make_unique<ReferenceChannel>(
        world, pair,
        Traffic{.messages = 10 + world.random(40), .bytes_max = 1 + world.random(9000), .outstanding_max = 1 + world.random(40)}));
  }
  const bool done = world.run_until([&] {
    bool finished = true;
    for (auto& channel : channels) {
      channel->act();
      finished = finished && channel->finished();
    }
    return finished || testing::Test::HasFatalFailure();
  });
  ASSERT_TRUE(done) << "traffic did not finish";
  for (auto& channel : channels) {
    channel->release();
    channel->close_both();
  }
  EXPECT_EQ(world.rnr_events(), 0u);
  const bool quiet = world.run_until([&] {
    std::uint64_t left = 0;
    for (const Host& host : world.hosts) left += host.engine->stats().links + host.engine->stats().registrations;
    return left == 0;
  });
  EXPECT_TRUE(quiet) << "links or registrations are left";
  for (const Host& host : world.hosts) {
    EXPECT_EQ(host.engine->stats().queue_pairs, 0u);
    EXPECT_EQ(host.engine->stats().errors, 0u);
    EXPECT_EQ(host.engine->stats().late_announcements, 0u);
  }
}

// Receives are taken back in the middle of traffic: from then on not a byte of the buffer may change, and the other channel of
// the same link goes on.
void run_take_back(std::uint64_t seed) {
  World world(seed, fabric_of(seed));
  arm_faults(world, seed);
  const World::Pair doomed_pair = world.connect(0, 1);
  const World::Pair other_pair = world.connect(0, 1);
  ASSERT_TRUE(doomed_pair.send != nullptr && other_pair.receive != nullptr);
  ReferenceChannel doomed(world, doomed_pair, {.messages = 60, .bytes_max = 9000, .outstanding_max = 32});
  ReferenceChannel other(world, other_pair, {.messages = 60, .bytes_max = 3000, .outstanding_max = 32});
  const std::uint64_t steps = 50 + world.random(600);
  for (std::uint64_t i = 0; i < steps; ++i) {
    doomed.act();
    other.act();
    world.step();
  }
  if (testing::Test::HasFatalFailure()) return;
  deregister_memory(*doomed_pair.receive, doomed.target_region());
  std::fill(doomed.target().begin(), doomed.target().end(), std::byte{0xcc});
  const bool done = world.run_until([&] {
    other.act();
    return other.finished() || testing::Test::HasFatalFailure();
  });
  ASSERT_TRUE(done) << "the other channel did not finish";
  for (const std::byte byte : doomed.target()) ASSERT_EQ(byte, std::byte{0xcc}) << "a write landed after deregister_memory";
  other.release();
  other.close_both();
  doomed.close_both();
  EXPECT_EQ(world.rnr_events(), 0u);
}

class SmallSim : public testing::Test {
 protected:
  static void for_seeds(std::uint64_t count, void (*run)(std::uint64_t)) {
    set_log_level(LogLevel::None);
    const std::uint64_t seeds = g_seeds.count == 0 ? count : g_seeds.count;
    for (std::uint64_t seed = g_seeds.first; seed < g_seeds.first + seeds; ++seed) {
      run(seed);
      ASSERT_FALSE(HasFailure()) << "seed " << seed << "; again with --seed " << seed << " --seeds 1";
    }
    std::printf("%llu seeds\n", static_cast<unsigned long long>(seeds));
  }
};

TEST_F(SmallSim, TrafficArrivesWholeAndInOrder) { for_seeds(1500, run_traffic); }
TEST_F(SmallSim, MemoryTakenBackIsUnreachable) { for_seeds(500, run_take_back); }

}  // namespace

void choose_seeds(const std::string& option, const std::string& value) {
  if (option == "--seed") g_seeds.first = std::stoull(value);
  if (option == "--seeds") g_seeds.count = std::stoull(value);
}

}  // namespace mesh::sim

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i + 1 < argc; i += 2) mesh::sim::choose_seeds(argv[i], argv[i + 1]);
  return RUN_ALL_TESTS();
}

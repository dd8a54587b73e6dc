// Several ranks on each host, which share its cards, ports and cables.
#include "perf/driver/plugin_log.h"
#include "perf/driver/world.h"
#include "tests/e2e/breaker.h"
#include "tests/e2e/line.h"
#include "tests/e2e/ring_job.h"

#include <gtest/gtest.h>

#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>

namespace mesh::e2e {
namespace {

using perf::Kind;

constexpr std::size_t kMiB = std::size_t{1} << 20;

// Opens a communicator on the card that is the rank's own among those of its host.
driver::Communicator open_own(driver::NetApi& api, std::uint64_t id = 1) {
  const std::string local = driver::variable(process_environment(), "LOCAL_RANK");
  return {api, {.id = id, .device = std::atoi(local.c_str())}};
}

const Scenario kCollectives("siblings_collectives", [](Peer& peer) {
  const auto api = peer.load();
  driver::Communicator communicator = open_own(*api);
  require_success(communicator.open(), "init");
  const std::vector<std::size_t> sizes{0, 64, 8192, kMiB / 4};
  for (const Kind kind : {Kind::AllReduce, Kind::AllToAll}) {
    Rounds rounds(peer, communicator, {.kind = kind, .bytes_max = sizes.back()});
    for (const std::size_t size : sizes) rounds.run(size);
  }
  peer.barrier();
});
void expect_collectives(const std::string& fabric, int ranks_per_host) {
  expect_run(kCollectives, {.fabric = fabric, .ranks_per_host = ranks_per_host});
}
TEST(Siblings, TwoOnEachOfTwoHosts) {
  expect_collectives("pair.json", 2);
  expect_collectives("pair2.json", 2);
}
TEST(Siblings, FourOnEachOfTwoHosts) { expect_collectives("pair2.json", 4); }
TEST(Siblings, TwoOnEachOfARing) { expect_collectives("ring4.json", 2); }
TEST(Siblings, TwoOnEachHostOfASwitch) { expect_collectives("switched3.json", 2); }
TEST(Siblings, EightOnEachOfTwoHosts) { expect_collectives("pair2.json", 8); }

// Returns true if a line says this of a path over the card.
bool told(const std::string& nic, const std::string& words) {
  const std::vector<std::string> lines = driver::PluginLog::instance().texts();
  return std::any_of(lines.begin(), lines.end(), [&](const std::string& line) {
    const bool here = line.find("path " + nic) != std::string::npos;
    return here && line.find(words) != std::string::npos;
  });
}

// The ports are the hosts': each rank loses its paths over a cut cable, and gets them back.
const Scenario kCut("siblings_cut", [](Peer& peer) {
  const auto api = peer.load();
  driver::Communicator communicator = open_own(*api);
  require_success(communicator.open(), "init");
  RingJob job(communicator, peer.bootstrap(), Kind::AllToAll);
  Breaker breaker;
  const auto run_until_all_tell = [&](const std::string& nic, const std::string& words) {
    const auto end = std::chrono::steady_clock::now() + patience();
    const std::vector<std::string> wanted(static_cast<std::size_t>(peer.world()), "1");
    while (peer.all_gather(told(nic, words) ? "1" : "0") != wanted) {
      require(std::chrono::steady_clock::now() < end, "no line that " + nic + " " + words);
      job.verified();
    }
  };
  for (const char* const nic : {"mesh0", "mesh1"}) {
    job.during([&] {
      breaker.wait_for_bytes(RingJob::kBytes);
      breaker.pull(nic);
    });
    run_until_all_tell(nic, "is lost");
    job.during([&] { breaker.plug(nic); });
    run_until_all_tell(nic, "is back");
  }
  peer.barrier();
});
TEST(Siblings, ACableIsCutUnderTwoOnEachHost) {
  expect_run(kCut, {.fabric = "pair2.json",
                    .ranks_per_host = 2,
                    .software_only = "it breaks the software fabric"});
}

// Two jobs on the same two hosts: rank 0 sends to rank 2, which is killed, and rank 1 to rank 3.
const Scenario kKilled("siblings_killed", [](Peer& peer) {
  constexpr int kVictim = 2;
  const std::vector<pid_t> pids = processes(peer);
  const int job = peer.rank() % 2;
  const LineOptions options{.bytes = 8 * kMiB, .from = job, .to = job + 2};
  if (job == 0) {
    Flow flow(peer, options);
    flow.let_flow(20);
    peer.barrier();
    if (peer.rank() == kVictim) ::raise(SIGKILL);
    return flow.expect_death();
  }
  const auto api = peer.load();
  const auto communicator = open_communicator(*api, 2);
  Line line(peer, *communicator, options);
  peer.barrier();
  constexpr std::uint64_t kMessages = 100;
  stream(line, {.count = kMessages, .bytes = kMiB});
  require(ends_within(pids[kVictim], patience()), "rank 2 has not ended");
  stream(line, {.count = kMessages, .bytes = kMiB, .first_number = kMessages});
  line.close();
  require_success(communicator->close(), "finalize");
});
TEST(Siblings, AKilledRankIsAnErrorForItsJobOnly) {
  const std::vector<RankEnd> ranks =
      run(kKilled, {.ranks_per_host = 2, .environment = {{"NCCL_MESH_PATH_TIMEOUT", "3600"}}});
  if (IsSkipped()) return;
  ASSERT_EQ(ranks.size(), 4u);
  EXPECT_EQ(ranks[2].end.code, SIGKILL) << ranks[2].output;
  for (const std::size_t rank : {0u, 1u, 3u}) {
    EXPECT_TRUE(ranks[rank].finished && ranks[rank].end.success()) << ranks[rank].output;
    EXPECT_EQ(ranks[rank].output.find("WARN NET") == std::string::npos, rank != 0)
        << "rank " << rank << ":\n"
        << ranks[rank].output;
  }
}

}  // namespace
}  // namespace mesh::e2e

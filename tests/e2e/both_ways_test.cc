// NCCL_MESH_BOTH_WAYS: parts of large messages go the long way round a ring, and every byte arrives
// at its place, whatever becomes of the cables.
#include "tests/e2e/line.h"
#include "tests/e2e/ring_job.h"
#include "tests/prelude.h"

namespace mesh::e2e {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr std::size_t kRoundBytes = std::size_t{6} << 20;
constexpr int kTimes = 8;
constexpr const char* kSoftwareOnly = "its cables are cut from within";

// A verified all-reduce whose hosts all send both ways.
struct Job {
  explicit Job(Peer& peer)
      : api(peer.load()),
        communicator(open_communicator(*api)),
        ring(*communicator, peer.bootstrap(), perf::Kind::AllReduce, kRoundBytes) {
    const std::string next(1, static_cast<char>('a' + (peer.rank() + 1) % peer.world()));
    const auto end = SteadyClock::now() + patience();
    const auto open = [&] {
      for (const std::string& each : peer.all_gather(route_to(next)))
        if (each.empty()) return false;
      return true;
    };
    while (!open()) {
      require(SteadyClock::now() < end, "the other way round is not opened");
      ring.verified();
    }
  }

  std::unique_ptr<driver::NetApi> api;
  std::unique_ptr<driver::Communicator> communicator;
  RingJob ring;
};

const Scenario kAllReduce("both_ways", [](Peer& peer) {
  Job job(peer);
  job.ring.verified(20);
  peer.barrier();
});

// Cuts one of a ring's cables for a while, again and again: the cable carries what a host sends
// over it directly, and what goes round over it.
const Scenario kCables("both_ways_cables", [](Peer& peer) {
  std::mt19937_64 random(1);
  Job job(peer);
  for (int i = 0; i < kTimes; ++i) {
    const int cable = static_cast<int>(random() % kRingHosts);
    std::mt19937_64 own(random());
    job.ring.during([&] {
      job.ring.let_flow(own, 2);
      cut_cable(cable);
      job.ring.let_flow(own, 4);
    });
    job.ring.verified(3);
    job.ring.during([&] { mend_cable(cable); });
    job.ring.verified(3);
  }
  peer.barrier();
});

RunOptions options(const char* fabric) {
  return {.fabric = fabric,
          .environment = {{"NCCL_MESH_BOTH_WAYS", "1"}, {"NCCL_DEBUG_SUBSYS", "INIT,NET"}}};
}

TEST(BothWays, AnAllReduceGoesRoundATriangle) { expect_run(kAllReduce, options("triangle.json")); }
TEST(BothWays, AnAllReduceGoesRoundARingOfFour) { expect_run(kAllReduce, options("ring4.json")); }
TEST(BothWays, CablesAreCutAtAnyMoment) {
  RunOptions cut = options("ring4.json");
  cut.software_only = kSoftwareOnly;
  expect_run(kCables, cut);
}

}  // namespace
}  // namespace mesh::e2e

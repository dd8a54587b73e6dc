// A process that has pollers and nothing to do costs little, and goes on afterwards.
#include "tests/e2e/breaker.h"
#include "tests/e2e/line.h"
#include "tests/e2e/pace.h"
#include "tests/e2e/process_figures.h"
#include "tests/prelude.h"

#include <ctime>

namespace mesh::e2e {
namespace {

constexpr std::size_t kBytes = 4096;
constexpr int kSeconds = 10;
constexpr double kWakeUpsBar = 20;  // a second
// A wake-up costs about 50 us where this was written, most of it the way out of the processor's
// sleep; a machine may be twice as slow.
constexpr double kProcessorBarS = kWakeUpsBar * 100e-6;  // a second

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}
double processor_s() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

// Returns the processor time of each of `count` seconds, sorted. The hypervisor's pauses count as
// processor time, but not in most of the seconds.
std::vector<double> idle_seconds(int count) {
  std::vector<double> used_s;
  for (int second = 0; second < count; ++second) {
    const double before_s = processor_s();
    std::this_thread::sleep_for(std::chrono::seconds(1));  // the time that is measured
    used_s.push_back(processor_s() - before_s);
  }
  std::sort(used_s.begin(), used_s.end());
  return used_s;
}

const Scenario kIdleAfterTraffic("idle_after_traffic", [](Peer& peer) {
  const auto api = peer.load();
  const auto communicator = open_communicator(*api);
  Line line(peer, *communicator, {.bytes = 8 * kBytes});
  stream(line, {.count = trimmed(2000), .bytes = kBytes});
  peer.barrier();
  const long wake_ups_before = wake_ups();
  const std::vector<double> used_s = idle_seconds(kSeconds);
  report_figure("wake_ups", static_cast<double>(wake_ups() - wake_ups_before) / kSeconds);
  report_figure("processor_s", used_s[kSeconds / 2]);
  report_figure("processor_max_s", used_s.back());
  peer.barrier();
  stream(line, {.count = trimmed(2000), .bytes = kBytes, .first_number = 100000});
  peer.barrier();
  line.close();
  require_success(communicator->close(), "finalize");
});

TEST(Idle, ASecondWithPollersCostsLittle) {
  const std::vector<RankEnd> ranks =
      run(kIdleAfterTraffic, {.environment = {{"NCCL_MESH_THREADS", "1"}}});
  expect_success(ranks);
  for (const RankEnd& rank : ranks) {
    EXPECT_LT(figure(rank, "processor_s"), processor_bar_s(kProcessorBarS)) << rank.output;
    EXPECT_LT(figure(rank, "wake_ups"), kWakeUpsBar) << rank.output;
    std::printf("a second of idling: %.2f ms of processor time (at most %.2f), %.1f wake-ups\n",
                1000 * figure(rank, "processor_s"), 1000 * figure(rank, "processor_max_s"),
                figure(rank, "wake_ups"));
  }
}

constexpr int kFlapsASecond = 10;
// A second takes 14 to 22 ms where this was written, most of them the software fabric's. A machine
// may be several times as slow; a poller that does not doze takes 1,000.
constexpr double kFlapsBarS = 250e-3;

// Rank 0 pulls the second cable ten times a second and plugs it in again; rank 1 measures.
const Scenario kIdleWithFlaps("idle_with_flaps", [](Peer& peer) {
  const auto api = peer.load();
  const auto communicator = open_communicator(*api);
  Line line(peer, *communicator, {.bytes = 8 * kBytes});
  stream(line, {.count = 1000, .bytes = kBytes});
  peer.barrier();
  if (peer.rank() == 0) {
    Breaker breaker;
    for (int flap = 0; flap < kSeconds * kFlapsASecond; ++flap) {
      constexpr auto kHalf = std::chrono::milliseconds(500 / kFlapsASecond);
      breaker.pull(1);
      std::this_thread::sleep_for(kHalf);  // the rate that is measured
      breaker.plug(1);
      std::this_thread::sleep_for(kHalf);
    }
  } else {
    report_figure("processor_s", idle_seconds(kSeconds)[kSeconds / 2]);
  }
  peer.barrier();
  stream(line, {.count = 1000, .bytes = kBytes, .first_number = 1000});
  peer.barrier();
  line.close();
  require_success(communicator->close(), "finalize");
});

TEST(Idle, APortThatFlapsTenTimesASecondCostsLittle) {
  const std::vector<RankEnd> ranks =
      run(kIdleWithFlaps, {.fabric = "pair2.json",
                           .software_only = "no cable is pulled so often",
                           .environment = {{"NCCL_MESH_THREADS", "1"}}});
  expect_success(ranks);
  EXPECT_LT(figure(ranks[1], "processor_s"), processor_bar_s(kFlapsBarS)) << ranks[1].output;
  std::printf("a second with ten flaps: %.2f ms of processor time\n",
              1000 * figure(ranks[1], "processor_s"));
}

constexpr int kSiblings = 8;  // ranks on each of two hosts, with default settings
// A second of all ranks of a host takes 1.2 to 2 ms where this was written; a machine may be twice
// as slow.
constexpr double kHostBarS = 2 * 20e-3 / 10;

// Measures while no rank has messages, and while rank 0 sends to the first rank of the other host.
const Scenario kIdleSiblings("idle_siblings", [](Peer& peer) {
  constexpr std::uint64_t kFirst = 5000;  // many slices of a busy machine, to know the speed
  constexpr double kTrafficS = kSeconds / 2.0;
  const auto api = peer.load();
  const auto communicator = open_communicator(*api);
  Rounds rounds(peer, *communicator, {.kind = perf::Kind::AllToAll, .bytes_max = kBytes});
  rounds.run(kBytes);
  const int local = peer.rank() % kSiblings;
  Line line(peer, *communicator, {.bytes = 8 * kBytes, .from = local, .to = local + kSiblings});
  const bool busy = local == 0;
  if (busy) stream(line, {.count = kFirst, .bytes = kBytes});  // makes the late queue pairs
  const auto begin = Clock::now();
  if (busy) stream(line, {.count = kFirst, .bytes = kBytes, .first_number = kFirst});
  const double message_s = seconds_since(begin) / kFirst;
  const auto count = std::stoul(peer.all_gather(std::to_string(kTrafficS / message_s)).front());
  const auto idle = [](const char* name) {
    report_figure(name, idle_seconds(kSeconds / 2)[kSeconds / 4]);
  };
  peer.barrier();
  idle("idle_s");
  peer.barrier();
  if (!busy) {
    idle("beside_s");
  } else {
    stream(line, {.count = count, .bytes = kBytes, .first_number = 2 * kFirst});
  }
  peer.barrier();
  line.close();
});

TEST(Idle, AHostWithEightRanksCostsLittle) {
  const std::vector<RankEnd> ranks =
      run(kIdleSiblings, {.ranks_per_host = kSiblings, .software_only = "hosts have eight ranks"});
  expect_success(ranks);
  for (std::size_t host = 0; host * kSiblings < ranks.size(); ++host) {
    double idle_s = 0, beside_s = 0;
    for (std::size_t sibling = 0; sibling < kSiblings; ++sibling) {
      const RankEnd& rank = ranks[host * kSiblings + sibling];
      idle_s += figure(rank, "idle_s");
      if (sibling != 0) beside_s += figure(rank, "beside_s");
    }
    EXPECT_LT(idle_s, processor_bar_s(kHostBarS));
    EXPECT_LT(beside_s, processor_bar_s(kHostBarS));
    std::printf(
        "a second of eight idle ranks: %.2f ms of processor time; of seven beside one with "
        "messages: %.2f ms\n",
        1000 * idle_s, 1000 * beside_s);
  }
}

}  // namespace
}  // namespace mesh::e2e

// A process that has pollers and nothing to do costs little, and goes on afterwards.
#include "tests/e2e/line.h"
#include "tests/e2e/pace.h"
#include "tests/e2e/process_figures.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <functional>
#include <string>
#include <thread>
#include <vector>

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

const Scenario kIdleAfterTraffic("idle_after_traffic", [](Peer& peer) {
  const auto api = peer.load();
  const auto communicator = open_communicator(*api);
  Line line(peer, *communicator, {.bytes = 8 * kBytes});
  stream(line, {.count = trimmed(2000), .bytes = kBytes});
  peer.barrier();
  const long wake_ups_before = wake_ups();
  std::vector<double> used_s;  // in each second
  for (int second = 0; second < kSeconds; ++second) {
    const double before_s = processor_s();
    std::this_thread::sleep_for(std::chrono::seconds(1));  // the time that is measured
    used_s.push_back(processor_s() - before_s);
  }
  report_figure("wake_ups", static_cast<double>(wake_ups() - wake_ups_before) / kSeconds);
  // The hypervisor's pauses count as processor time, but not in most of the seconds.
  std::sort(used_s.begin(), used_s.end());
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

constexpr int kSiblings = 8;              // ranks on each of two hosts, with default settings
constexpr double kHostBarS = 20e-3 / 10;  // a second, of all ranks of a host

// Measures while no rank has messages, and while rank 0 sends to the first rank of the other host.
const Scenario kIdleSiblings("idle_siblings", [](Peer& peer) {
  constexpr std::uint64_t kFirst = 200;
  const auto api = peer.load();
  const auto communicator = open_communicator(*api);
  Rounds rounds(peer, *communicator, {.kind = perf::Kind::AllToAll, .bytes_max = kBytes});
  rounds.run(kBytes);
  const int local = peer.rank() % kSiblings;
  Line line(peer, *communicator, {.bytes = 8 * kBytes, .from = local, .to = local + kSiblings});
  const bool busy = local == 0;
  const auto begin = Clock::now();
  if (busy) stream(line, {.count = kFirst, .bytes = kBytes});
  const double message_s = seconds_since(begin) / kFirst;
  const auto count = std::stoul(peer.all_gather(std::to_string(kSeconds / 2 / message_s)).front());
  const auto measure = [&](const char* name, const std::function<void()>& act) {
    peer.barrier();
    const double before_s = processor_s();
    const auto from = Clock::now();
    act();
    peer.barrier();
    report_figure(name, (processor_s() - before_s) / seconds_since(from));
  };
  measure("idle_s", [] {
    std::this_thread::sleep_for(std::chrono::seconds(kSeconds));  // the time that is measured
  });
  measure("beside_s", [&] {
    if (busy) stream(line, {.count = count, .bytes = kBytes, .first_number = kFirst});
  });
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

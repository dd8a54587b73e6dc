// A process that has pollers and nothing to do costs little, and goes on afterwards.
#include "tests/e2e/line.h"
#include "tests/e2e/pace.h"
#include "tests/e2e/process_figures.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <ctime>
#include <thread>
#include <vector>

namespace mesh::e2e {
namespace {

constexpr std::size_t kBytes = 4096;
constexpr std::chrono::seconds kIdle{10};
constexpr double kProcessorBarS = 0.010;
constexpr double kWakeUpsBar = 200;

double processor_s() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

const Scenario kIdleAfterTraffic("idle_after_traffic", [](Peer& peer) {
  const auto api = peer.load();
  const auto communicator = open_communicator(*api);
  Line line(peer, *communicator, {.bytes = 8 * kBytes});
  stream(line, {.count = trimmed(2000), .bytes = kBytes});
  peer.barrier();
  const double processor_before = processor_s();
  const long wake_ups_before = wake_ups();
  std::this_thread::sleep_for(kIdle);  // the time that is measured
  report_figure("wake_ups", static_cast<double>(wake_ups() - wake_ups_before));
  report_figure("processor_s", processor_s() - processor_before);
  peer.barrier();
  stream(line, {.count = trimmed(2000), .bytes = kBytes, .first_number = 100000});
  peer.barrier();
  line.close();
  require_success(communicator->close(), "finalize");
});

TEST(Idle, TenSecondsWithPollersCostLittle) {
  const std::vector<RankEnd> ranks =
      run(kIdleAfterTraffic, {.environment = {{"NCCL_MESH_THREADS", "1"}}});
  expect_success(ranks);
  for (const RankEnd& rank : ranks) {
    EXPECT_LT(figure(rank, "processor_s"), processor_bar_s(kProcessorBarS)) << rank.output;
    EXPECT_LT(figure(rank, "wake_ups"), kWakeUpsBar) << rank.output;
    std::printf("10 s idle: %.1f ms of processor time, %.0f wake-ups\n",
                1000 * figure(rank, "processor_s"), figure(rank, "wake_ups"));
  }
}

}  // namespace
}  // namespace mesh::e2e

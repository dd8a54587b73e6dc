// Scenarios that show, on demand, what can happen to a run between hosts: e2e_cluster starts them
// on every "host"; they never run by themselves.
#include "perf/driver/world.h"
#include "tests/e2e/scenario.h"

#include <gtest/gtest.h>

namespace mesh::e2e {
namespace {

const Scenario kMeet("meet", [](Peer& peer) {
  std::printf("scenario rank %d of %d says %s\n", peer.rank(), peer.world(),
              peer.argument().c_str());
  peer.barrier();
});
TEST(Probe, PairPasses) {
  expect_run_says(kMeet, {.argument = "hello"}, "scenario rank 1 of 2 says hello");
}
TEST(Probe, TrianglePasses) {
  expect_run_says(kMeet, {.fabric = "triangle.json"}, "scenario rank 2 of 3");
}

const Scenario kOwnSetting("own_setting", [](Peer&) {
  require(driver::variable(process_environment(), "NCCL_MESH_QPS") == "2",
          "the scenario's setting did not arrive");
});
TEST(Probe, EnvironmentArrives) {
  expect_run(kOwnSetting, {.environment = {{"NCCL_MESH_QPS", "2"}}});
}
TEST(Probe, EightAreTooMany) { expect_run(kMeet, {.fabric = "alltoall8.json"}); }
TEST(Probe, ModelsAreNotForHosts) { expect_run(kMeet, {.software_only = "it says so"}); }

const Scenario kLongOutput("long_output", [](Peer&) {
  for (int line = 0; line < 200000; ++line) std::printf("line %d\n", line);
  report_figure("lines", 200000);
});
TEST(Probe, TheEndOfALongOutputArrives) {
  const std::vector<RankEnd> ranks = run(kLongOutput, {});
  for (const RankEnd& rank : ranks) EXPECT_EQ(figure(rank, "lines"), 200000);
}

const Scenario kOneFails("one_fails",
                         [](Peer& peer) { require(peer.rank() != 1, "it was asked to"); });
TEST(ProbeBad, ScenarioRankOneFails) { expect_run(kOneFails); }

const Scenario kParentDies("parent_dies", [](Peer& peer) {
  if (peer.rank() == 1) ::kill(::getppid(), SIGKILL);
  for (;;) ::pause();
});
TEST(ProbeBad, ParentOfRankOneDies) {
  expect_run(kParentDies, {.timeout = std::chrono::hours(10)});
}

}  // namespace
}  // namespace mesh::e2e

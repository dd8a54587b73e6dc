// Runs the end-to-end tests as a cluster does, with several parents on this machine, each one host
// of the software fabric.
#include "perf/driver/launcher.h"
#include "perf/driver/soft_fabric.h"
#include "tests/e2e/held_port.h"
#include "tests/e2e/pace.h"
#include "tests/prelude.h"

namespace mesh::e2e {
namespace {

using Variables = std::vector<std::pair<std::string, std::string>>;

struct Parent {
  driver::ProcessEnd end;
  bool finished = false;
  std::string output;
  bool says(const std::string& text) const { return output.find(text) != std::string::npos; }
};

struct Start {
  std::string program;
  std::string filter = "*";
  std::string fabric = "pair.json";
  Variables environment_of_1{};          // of the second parent
  std::vector<std::string> arguments{};  // instead of the filter
};

std::vector<Parent> start(const Start& what) {
  const auto fabric = driver::SoftFabric::open(MESH_FABRIC_DIR "/" + what.fabric, {});
  EXPECT_TRUE(fabric.ok());
  if (!fabric.ok()) return {};
  const std::size_t world = fabric.value().hosts().size();
  const HeldPort port;  // for rank 0, which listens at it
  driver::Launcher launcher;
  // Starts the last rank first: a rank that is early waits.
  for (std::size_t rank = world; rank-- > 0;) {
    driver::ProcessSpec spec;
    spec.arguments = {what.program};
    if (what.arguments.empty()) spec.arguments.push_back("--gtest_filter=" + what.filter);
    spec.arguments.insert(spec.arguments.end(), what.arguments.begin(), what.arguments.end());
    spec.environment = fabric.value().environment(rank);
    if (rank == 1)
      spec.environment.insert(spec.environment.end(), what.environment_of_1.begin(),
                              what.environment_of_1.end());
    spec.environment.insert(spec.environment.end(), {{"MESH_RENDEZVOUS", port.address()},
                                                     {"RANK", std::to_string(rank)},
                                                     {"WORLD_SIZE", std::to_string(world)}});
    spec.capture = true;
    EXPECT_TRUE(launcher.start(spec).ok());
  }
  launcher.wait({.timeout = scaled(std::chrono::seconds(300))});
  std::vector<Parent> parents;
  for (std::size_t i = world; i-- > 0;)
    parents.push_back({launcher.end(i), !launcher.running(i), launcher.output(i)});
  return parents;
}

std::string dump(const std::vector<Parent>& parents) {
  std::string text;
  for (const Parent& parent : parents) text += "---- " + parent.end.text() + "\n" + parent.output;
  return text;
}

void expect_all_end_with(const std::vector<Parent>& parents, int code) {
  for (const Parent& parent : parents) {
    EXPECT_TRUE(parent.finished && parent.end.exited && parent.end.code == code) << dump(parents);
  }
}

TEST(Cluster, ThreeHostsPassTogetherAndOnlyRankZeroTells) {
  const std::vector<Parent> parents =
      start({.program = MESH_PROBE_FILE, .filter = "Probe.*", .fabric = "triangle.json"});
  ASSERT_EQ(parents.size(), 3u);
  expect_all_end_with(parents, 0);
  EXPECT_TRUE(parents[0].says("[  PASSED  ] 4 tests.")) << dump(parents);
  EXPECT_TRUE(parents[0].says("needs 8 hosts, here are 3")) << dump(parents);
  EXPECT_TRUE(parents[0].says("needs the software fabric: it says so")) << dump(parents);
  EXPECT_EQ(parents[1].output + parents[2].output, "");
}

TEST(Cluster, AFailureFailsOnEveryRankAlsoOnAnIdleOne) {
  const std::vector<Parent> parents = start({.program = MESH_PROBE_FILE,
                                             .filter = "ProbeBad.ScenarioRankOneFails",
                                             .fabric = "triangle.json"});
  ASSERT_EQ(parents.size(), 3u);
  expect_all_end_with(parents, 1);
  EXPECT_TRUE(parents[0].says("FAILED in rank 1: it was asked to")) << dump(parents);
  EXPECT_TRUE(parents[2].says("e2e: rank 2: ProbeBad.ScenarioRankOneFails failed: "))
      << dump(parents);
}

TEST(Cluster, AParentKilledIsNamedByTheOthersLongBeforeTheTimeout) {
  const std::vector<Parent> parents = start({.program = MESH_PROBE_FILE,
                                             .filter = "ProbeBad.ParentOfRankOneDies",
                                             .fabric = "triangle.json"});
  ASSERT_EQ(parents.size(), 3u);
  EXPECT_FALSE(parents[1].end.exited);
  for (const std::size_t rank : {0u, 2u}) {
    EXPECT_TRUE(parents[rank].finished && parents[rank].end.exited && parents[rank].end.code == 1)
        << dump(parents);
    EXPECT_TRUE(
        parents[rank].says("lost the parent on rank 1 during step 1 (ProbeBad.ParentOfRankOneDies"))
        << dump(parents);
  }
}

TEST(Cluster, HostsThatDoNotRunTheSameSaySo) {
  const std::vector<Parent> parents =
      start({.program = MESH_PROBE_FILE, .environment_of_1 = {{"MESH_TOPOLOGY", "pair2"}}});
  expect_all_end_with(parents, 1);
  EXPECT_TRUE(parents[0].says("MESH_TOPOLOGY=pair2")) << dump(parents);
}

// Moves two million short sizes: each is done long before any wait for it would end.
TEST(Cluster, APerfRunOutOfTimeEndsOnEveryRankWithOneLine) {
  const std::vector<Parent> parents =
      start({.program = MESH_PERF_FILE,
             .arguments = {"all_reduce", "-b", "8", "-e", "16M", "-i", "8", "-n", "1", "-w", "0",
                           "-c", "0", "--timeout", "2"}});
  ASSERT_EQ(parents.size(), 2u);
  expect_all_end_with(parents, 1);
  for (std::size_t rank = 0; rank < parents.size(); ++rank) {
    const std::string line =
        "mesh_perf: rank " + std::to_string(rank) + ": not finished within 2 s (--timeout)";
    EXPECT_TRUE(parents[rank].says(line)) << parents[rank].output;
    const std::string& output = parents[rank].output;
    EXPECT_EQ(output.find("mesh_perf: rank"), output.rfind("mesh_perf: rank")) << output;
  }
}

}  // namespace
}  // namespace mesh::e2e

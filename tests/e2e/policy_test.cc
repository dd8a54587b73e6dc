// The source of the policy of a real run, and where pollers run. All of it is read from the
// plugin's own lines.
#include "perf/driver/plugin_log.h"
#include "tests/e2e/line.h"
#include "tests/prelude.h"
#include "tests/unit/base/child.h"

#include <sys/mount.h>

namespace mesh::e2e {
namespace {

// Returns true if / is a mount point. In a chroot it may be none: then no mount below can be made
// private, and a process in a new mount namespace reads a wrong path from /proc/self/exe.
bool root_is_mount_point() {
  std::ifstream mounts("/proc/self/mountinfo");
  for (std::string id, parent, device, root, point, rest;
       mounts >> id >> parent >> device >> root >> point && std::getline(mounts, rest);)
    if (point == "/") return true;
  return false;
}

// Gives this process and its ranks a /dev/shm of their own, where pollers claim CPUs: other jobs of
// this user and machine may hold claims. Changes nothing where the process has no right to.
void leave_claims() {
  if (!root_is_mount_point()) return;
  const std::string user = std::to_string(::geteuid());
  if (::unshare(CLONE_NEWNS) != 0 &&
      (::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0 ||
       !testkit::write_text("/proc/self/uid_map", user + " " + user + " 1")))
    return;
  if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0)
    ::mount("tmpfs", "/dev/shm", "tmpfs", 0, nullptr);
}

class Policy : public testing::Test {
 protected:
  static void SetUpTestSuite() { leave_claims(); }
};

constexpr const char* kOnlySoft = "its lines are of the software fabric";

const Scenario kOneMessage("one_message", send_one_message);
const Scenario kNoPlugin("no_plugin", expect_no_plugin);

RunOptions with(std::vector<std::pair<std::string, std::string>> environment) {
  environment.emplace_back("NCCL_DEBUG_SUBSYS", "INIT,NET");  // links and pollers
  return {.software_only = kOnlySoft, .environment = std::move(environment)};
}

TEST_F(Policy, ASettingChangesWhatThePluginDoes) {
  expect_run_says(kOneMessage, with({}), "per path 1 express + 4 bulk queue pairs");
  expect_run_says(kOneMessage, with({{"NCCL_MESH_QPS", "3"}}),
                  "per path 1 express + 3 bulk queue pairs");
}

std::string poller_line(const RankEnd& rank) {
  const std::size_t at = rank.output.find("poller of mesh0:1");
  return at == std::string::npos ? "" : rank.output.substr(at, rank.output.find('\n', at) - at);
}

// Two processes of one machine stand for two jobs on one host here.
TEST_F(Policy, PollersOfTwoProcessesTakeDifferentCores) {
  cpu_set_t allowed;
  ASSERT_EQ(::sched_getaffinity(0, sizeof(allowed), &allowed), 0);
  if (CPU_COUNT(&allowed) < 2) GTEST_SKIP() << "one CPU";
  const auto ranks =
      run(kOneMessage,
          {.software_only = "it needs two processes on one host",
           .environment = {{"NCCL_MESH_THREADS", "1"}, {"NCCL_DEBUG_SUBSYS", "INIT,NET"}}});
  expect_success(ranks);
  if (testing::Test::IsSkipped()) return;
  EXPECT_NE(poller_line(ranks.at(0)).find("on CPU"), std::string::npos) << ranks[0].output;
  EXPECT_NE(poller_line(ranks.at(1)).find("on CPU"), std::string::npos) << ranks[1].output;
  EXPECT_NE(poller_line(ranks[0]), poller_line(ranks[1]));
}

std::size_t first_allowed_cpu() {
  cpu_set_t allowed;
  EXPECT_EQ(::sched_getaffinity(0, sizeof(allowed), &allowed), 0);
  std::size_t cpu = 0;
  while (!CPU_ISSET(cpu, &allowed)) ++cpu;
  return cpu;
}

TEST_F(Policy, NamedCpusAreUsedAndOneForTwoPollersIsShared) {
  const std::size_t cpu = first_allowed_cpu();
  // A user who names CPUs asks for a poller, however few CPUs there are.
  const auto ranks = run(kOneMessage, with({{"NCCL_MESH_CPUS", std::to_string(cpu)}}));
  expect_success(ranks);
  if (testing::Test::IsSkipped()) return;
  const std::string own = "on CPU " + std::to_string(cpu);
  const std::string shared = "so it shares CPU " + std::to_string(cpu);
  const auto ranks_that_say = [&](const std::string& text) {
    return std::count_if(ranks.begin(), ranks.end(), [&](const RankEnd& rank) {
      return poller_line(rank).find(text) != std::string::npos;
    });
  };
  EXPECT_EQ(ranks_that_say(own), 1);
  EXPECT_EQ(ranks_that_say(shared), 1);
}

TEST_F(Policy, CpusThatAreNotOursStopTheStartWithALine) {
  expect_run_says(kNoPlugin, with({{"NCCL_MESH_CPUS", "8191"}}),
                  "NCCL_MESH_CPUS: this process may not run on any of '8191'");
  expect_run_says(kNoPlugin, with({{"NCCL_MESH_CPUS", "1-"}}),
                  "NCCL_MESH_CPUS: '1-' is not usable");
}

}  // namespace
}  // namespace mesh::e2e

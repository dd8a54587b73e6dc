// The lines of the plugin that a user reads with NCCL_DEBUG=INFO and without NCCL_DEBUG_SUBSYS. The
// driver's log filters as NCCL does (perf/driver/log_filter.h).
#include "perf/driver/plugin_log.h"
#include "tests/e2e/line.h"
#include "tests/prelude.h"

namespace mesh::e2e {
namespace {

const Scenario kOneMessage("one_message", send_one_message);
const Scenario kNoPlugin("no_plugin", expect_no_plugin);

RunOptions software(std::vector<std::pair<std::string, std::string>> environment = {}) {
  return {.software_only = "the lines are those of a software fabric",
          .environment = std::move(environment)};
}

// Returns the first line of the plugin that holds the words; "" if there is none.
std::string plugin_line(const RankEnd& rank, const std::string& words) {
  std::istringstream lines(rank.output);
  for (std::string line; std::getline(lines, line);) {
    if (line.find(driver::kPluginPrefix) != std::string::npos &&
        line.find(words) != std::string::npos)
      return line;
  }
  return "";
}

void expect_each_reads(const std::vector<RankEnd>& ranks, const std::vector<std::string>& words) {
  expect_success(ranks);
  for (const RankEnd& rank : ranks) {
    for (const std::string& each : words)
      EXPECT_NE(plugin_line(rank, each), "") << each << "\n" << rank.output;
  }
}

TEST(Heard, ANormalStartShowsRailsLinksPolicyAndSettings) {
  const auto ranks = run(kOneMessage, software({{"NCCL_MESH_QPS", "3"}}));
  expect_each_reads(ranks, {"INFO NET/Mesh : rail 0 mesh0:1: 10.0.12.",
                            "policy: set: qps 3; default: ", "INFO NET/Mesh : peer "});
  for (const RankEnd& rank : ranks) {
    const std::string settings = plugin_line(rank, "settings: ");
    EXPECT_NE(settings.find("NCCL_MESH_QPS 3 (default auto)"), std::string::npos) << rank.output;
    EXPECT_EQ(settings.find("NCCL_MESH_SLOTS"), std::string::npos) << "it is at its default";
    EXPECT_EQ(plugin_line(rank, "setting NCCL_"), "") << rank.output;
  }
}

TEST(Heard, ABadSettingIsAWarningThatNamesItsRange) {
  expect_each_reads(run(kNoPlugin, software({{"NCCL_MESH_QPS", "99"}})),
                    {"WARN NET/Mesh : NCCL_MESH_QPS: '99' is not usable; wanted: 1..32 or auto"});
}

TEST(Heard, AMissingDeviceIsNamed) {
  expect_each_reads(run(kNoPlugin, software({{"NCCL_IB_HCA", "mlx9"}})),
                    {"WARN NET/Mesh : NCCL_IB_HCA=mlx9 leaves no port of ", "which has mesh0"});
}

TEST(Heard, OtherSubsystemsShowTheRest) {
  const auto quiet = run(kOneMessage, software());
  const auto net = run(kOneMessage, software({{"NCCL_DEBUG_SUBSYS", "INIT,NET"}}));
  for (const RankEnd& rank : quiet) EXPECT_EQ(plugin_line(rank, "in 1 messages"), "");
  for (const RankEnd& rank : net) EXPECT_NE(plugin_line(rank, "in 1 messages"), "") << rank.output;
}

}  // namespace
}  // namespace mesh::e2e

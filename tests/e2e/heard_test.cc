// The lines of the plugin that a user reads with NCCL_DEBUG=INFO and without NCCL_DEBUG_SUBSYS. The
// driver's log filters as NCCL does (perf/driver/log_filter.h).
#include "engine/control/frames.h"
#include "perf/driver/plugin_log.h"
#include "tests/e2e/line.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <sstream>
#include <string>

namespace mesh::e2e {
namespace {

using SteadyClock = std::chrono::steady_clock;
constexpr std::size_t kVersionAt = 4;  // in a handle

const Scenario kOneMessage("one_message", send_one_message);
const Scenario kNoPlugin("no_plugin", expect_no_plugin);

// Transfers messages of that size until all ranks have read the words.
void transfer_until_said(Peer& peer, Line& line, std::size_t bytes, const char* words) {
  const auto deadline = SteadyClock::now() + patience();
  for (bool said = false; !said;) {
    transfer(line, {.bytes = bytes});
    const auto votes = peer.all_gather(logged(words) ? "1" : "0");
    said = std::count(votes.begin(), votes.end(), "1") == peer.world();
    require(said || SteadyClock::now() < deadline, std::string("nobody read: ") + words);
  }
}

// The second cable of host a loses full packets: the probe finds it, for no message is large.
constexpr const char* kBlackHoleFabric = R"({"name": "black_hole",
  "hosts": [{"name": "a", "nics": [{"name": "mesh0", "address": "10.0.12.1/24"},
                                   {"name": "mesh1", "address": "10.0.13.1/24"}]},
            {"name": "b", "nics": [{"name": "mesh0", "address": "10.0.12.2/24"},
                                   {"name": "mesh1", "address": "10.0.13.2/24"}]}],
  "links": [{"ends": ["a/mesh0", "b/mesh0"]}, {"ends": ["a/mesh1", "b/mesh1"]}],
  "faults": [{"kind": "mtu", "host": "a", "nic": "mesh1", "mtu": 2048}]})";
const Scenario kBlackHole("black_hole", [](Peer& peer) {
  const auto api = peer.load();
  const auto communicator = open_communicator(*api);
  Line line(peer, *communicator, {.bytes = 1 << 20});
  transfer_until_said(peer, line, 1024, "full packets");
  transfer(line, {.bytes = 1 << 20});
  peer.barrier();
  line.close();
});

// Connects rank 0 to rank 1, which does not have the listener. Both end with an error, without
// waiting for anything. The argument is the version that the handle is to show; empty: its own.
const Scenario kRefused("refused", [](Peer& peer) {
  const auto api = peer.load();
  const auto communicator = open_communicator(*api);
  expect_refusal(peer, *communicator, [&peer](driver::NetHandle& remote) {
    if (!peer.argument().empty())
      remote[kVersionAt] = static_cast<std::byte>(std::stoi(peer.argument()));
  });
});

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

TEST(Heard, ABlackHoleIsNamedWithItsMtuOnBothSides) {
  RunOptions options =
      software({{"NCCL_IB_TIMEOUT", "10"}, {"NCCL_MESH_RAILS", "all"}});  // 4 ms a try
  options.fabric_text = kBlackHoleFabric;
  expect_each_reads(run(kBlackHole, options), {"full packets of 4096 bytes (the path's MTU) vanish",
                                               "path mesh1:1 -> mesh", "1 of 2 paths carry on"});
}

const Scenario kDormant("dormant", [](Peer& peer) {
  const auto api = peer.load();
  const auto communicator = open_communicator(*api);
  Dormant dormant(peer, *communicator);
  dormant.expect_first_messages_to_fail();
  peer.barrier();
  dormant.close();
});

TEST(Heard, APeerWithoutACommonSubnetIsNamedOnBothSides) {
  RunOptions options = software({{"NCCL_MESH_RELAY", "0"}});
  options.fabric = "line3.json";
  options.hosts = {"a", "c"};
  expect_each_reads(
      run(kDormant, options),
      {"INFO NET/Mesh : peer ", "NCCL_ALGO=Ring keeps to neighbours",
       ": no path leads to it: NCCL_MESH_RELAY=0 on host ", "10.0.12.0/24", "10.0.23.0/24"});
}

TEST(Heard, APeerOfAnotherVersionIsNamedOnBothSides) {
  RunOptions options = software();
  options.argument = "3";
  const auto ranks = run(kRefused, options);
  expect_success(ranks);
  ASSERT_EQ(ranks.size(), 2u);
  const std::string ours = std::to_string(engine::kProtocolVersion);
  EXPECT_NE(plugin_line(ranks[0], "WARN NET/Mesh : connect: the peer speaks version 3, we speak " +
                                      ours + ": all ranks must use the same plugin"),
            "")
      << ranks[0].output;
  EXPECT_NE(plugin_line(ranks[1], "its connect has failed: host a speaks version " + ours +
                                      " and was asked for version 3: all ranks must use"),
            "")
      << ranks[1].output;
}

TEST(Heard, OtherSubsystemsShowTheRest) {
  const auto quiet = run(kOneMessage, software());
  const auto net = run(kOneMessage, software({{"NCCL_DEBUG_SUBSYS", "INIT,NET"}}));
  for (const RankEnd& rank : quiet) EXPECT_EQ(plugin_line(rank, "in 1 messages"), "");
  for (const RankEnd& rank : net) EXPECT_NE(plugin_line(rank, "in 1 messages"), "") << rank.output;
}

}  // namespace
}  // namespace mesh::e2e

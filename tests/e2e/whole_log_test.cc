// Whole logs, as a user of NCCL_DEBUG=INFO reads them on each host: how many lines of the plugin,
// how long, and of what.
#include "perf/driver/plugin_log.h"
#include "tests/e2e/line.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <sstream>
#include <string>
#include <vector>

namespace mesh::e2e {
namespace {

constexpr std::size_t kBytes = std::size_t{256} << 10;
constexpr std::size_t kLineBytesMax = 160;
constexpr std::size_t kLevelBytes = 5;  // "INFO "

// The plugin's lines of one rank, each with its level in front. NCCL connects no rank with itself
// through a network, as the all-to-all here does, so that line is left out.
class Log {
 public:
  Log(const RankEnd& rank, const std::string& host) : whole_(rank.output) {
    std::istringstream lines(rank.output);
    for (std::string line; std::getline(lines, line);) {
      const std::size_t at = line.find(driver::kPluginPrefix);
      if (at == std::string::npos || at < kLevelBytes) continue;
      if (line.find("INFO NET/Mesh : peer " + host + ": ") == std::string::npos)
        lines_.push_back(line.substr(at - kLevelBytes));
    }
  }
  const std::vector<std::string>& lines() const { return lines_; }
  const std::string& whole() const { return whole_; }
  long count(const std::string& words) const {
    return std::count_if(lines_.begin(), lines_.end(), [&](const std::string& line) {
      return line.find(words) != std::string::npos;
    });
  }
  std::size_t longest() const {
    std::size_t most = 0;
    for (const std::string& line : lines_) most = std::max(most, line.size() - kLevelBytes);
    return most;
  }

 private:
  std::string whole_;
  std::vector<std::string> lines_;
};

RunOptions triangle() {
  return {.fabric = "triangle.json",
          .software_only = "the lines are those of a software fabric",
          // The settings of a user who sets nothing; a profile of this machine's must not count.
          .environment = {{"NCCL_MESH_PROFILE", ""}, {"XDG_CONFIG_HOME", "/nonexistent"}}};
}

std::vector<Log> logs_of(const std::vector<RankEnd>& ranks) {
  std::vector<Log> logs;
  for (std::size_t i = 0; i < ranks.size(); ++i)
    logs.emplace_back(ranks[i], std::string(1, static_cast<char>('a' + i)));
  return logs;
}

// Every host sends to both others and receives from them, over two communicators.
const Scenario kStart("whole_log_start", [](Peer& peer) {
  const auto api = peer.load();
  const auto first = open_communicator(*api, 1), second = open_communicator(*api, 2);
  for (driver::Communicator* communicator : {first.get(), second.get()}) {
    Rounds rounds(peer, *communicator, {.kind = perf::Kind::AllToAll, .bytes_max = kBytes}, 2);
    rounds.run(kBytes);
    peer.barrier();
  }
});

TEST(WholeLog, AStartHasSixShortLinesAndNamesTheVersionFirst) {
  const std::vector<RankEnd> ranks = run(kStart, triangle());
  expect_success(ranks);
  for (const Log& log : logs_of(ranks)) {
    ASSERT_FALSE(log.lines().empty()) << log.whole();
    EXPECT_LE(log.lines().size(), 6u) << log.whole();
    EXPECT_LE(log.longest(), kLineBytesMax) << log.whole();
    EXPECT_TRUE(log.lines().front().starts_with("INFO NET/Mesh : nccl-mesh ")) << log.whole();
    EXPECT_EQ(log.count("INFO NET/Mesh : rail "), 2) << log.whole();
    EXPECT_EQ(log.count("INFO NET/Mesh : peer "), 2) << log.whole();
    EXPECT_EQ(log.count("INFO NET/Mesh : policy: "), 1) << log.whole();
    EXPECT_EQ(log.count("WARN "), 0) << log.whole();
  }
}

}  // namespace
}  // namespace mesh::e2e

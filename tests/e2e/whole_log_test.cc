// Whole logs, as a user of NCCL_DEBUG=INFO reads them on each host without NCCL_DEBUG_SUBSYS: how
// many lines of the plugin, how long, and of what. The driver's log filters as NCCL does
// (perf/driver/log_filter.h).
#include "perf/driver/plugin_log.h"
#include "tests/e2e/breaker.h"
#include "tests/e2e/line.h"
#include "tests/e2e/pace.h"
#include "tests/prelude.h"

namespace mesh::e2e {
namespace {

constexpr std::size_t kBytes = std::size_t{256} << 10;
constexpr std::size_t kLineBytesMax = 160;  // of an INFO line; a warning says the most within it
constexpr std::size_t kLevelBytes = 5;      // "INFO "

// The plugin's lines of one rank, each with its level in front, no INFO line too long. NCCL
// connects no rank with itself through a network, as the all-to-all here does, so that line is left
// out.
struct Log {
  Log(const RankEnd& rank, const std::string& host) : whole(rank.output) {
    std::istringstream text(rank.output);
    for (std::string line; std::getline(text, line);) {
      const std::size_t at = line.find(driver::kPluginPrefix);
      if (at == std::string::npos || at < kLevelBytes) continue;
      const bool info = line.compare(at - kLevelBytes, kLevelBytes, "INFO ") == 0;
      EXPECT_LE(info ? line.size() - at : 0, kLineBytesMax) << line;
      if (line.find("NET/Mesh : peer " + host + ": ") == std::string::npos)
        lines.push_back(line.substr(at - kLevelBytes));
    }
  }
  long count(const std::string& words) const {
    return std::count_if(lines.begin(), lines.end(), [&](const std::string& line) {
      return line.find(words) != std::string::npos;
    });
  }

  std::string whole;
  std::vector<std::string> lines;
};

RunOptions triangle() {
  return {.fabric = "triangle.json",
          .software_only = "the lines are those of a software fabric",
          // An old profile of this machine's user would be a line.
          .environment = {{"XDG_CONFIG_HOME", "/nonexistent"}}};
}

std::vector<Log> logs_of(const std::vector<RankEnd>& ranks) {
  std::vector<Log> logs;
  for (std::size_t i = 0; i < ranks.size(); ++i)
    logs.emplace_back(ranks[i], std::string(1, static_cast<char>('a' + i)));
  return logs;
}

// All hosts send to all others and receive from them.
class Job {
 public:
  explicit Job(Peer& peer, std::uint64_t id = 1)
      : api_(peer.load()),
        communicator_(open_communicator(*api_, id)),
        rounds_(std::in_place, peer, *communicator_,
                perf::CollectiveOptions{.kind = perf::Kind::AllToAll, .bytes_max = kBytes}, 2) {}
  void round() { rounds_->run(kBytes); }
  bool fails() try {
    round();
    return false;
  } catch (const Failure&) {
    return true;
  }
  void leave() {  // closes everything, as an abort does
    rounds_.reset();
    communicator_.reset();
  }

 private:
  const std::unique_ptr<driver::NetApi> api_;
  std::unique_ptr<driver::Communicator> communicator_;
  std::optional<Rounds> rounds_;
};

const Scenario kStart("whole_log_start", [](Peer& peer) {
  Job first(peer, 1), second(peer, 2);
  first.round();
  second.round();
  peer.barrier();
});

TEST(WholeLog, AStartHasSixShortLinesAndNamesTheVersionFirst) {
  const std::vector<RankEnd> ranks = run(kStart, triangle());
  expect_success(ranks);
  for (const Log& log : logs_of(ranks)) {
    ASSERT_FALSE(log.lines.empty()) << log.whole;
    EXPECT_LE(log.lines.size(), 6u) << log.whole;
    EXPECT_TRUE(log.lines.front().starts_with("INFO NET/Mesh : nccl-mesh ")) << log.whole;
    EXPECT_EQ(log.count("INFO NET/Mesh : rail "), 2) << log.whole;
    EXPECT_EQ(log.count("INFO NET/Mesh : peer "), 2) << log.whole;
    EXPECT_EQ(log.count(", no GPUDirect"), 2) << log.whole;
    EXPECT_EQ(log.count("INFO NET/Mesh : policy: "), 1) << log.whole;
    EXPECT_EQ(log.count("WARN "), 0) << log.whole;
  }
}

const Scenario kOneMessage("one_message", send_one_message);

TEST(WholeLog, AStartShowsSettingsThatDifferAndOtherSubsystemsTheRest) {
  RunOptions options = triangle();
  options.fabric = "pair.json";
  options.environment.emplace_back("NCCL_MESH_QPS", "3");
  constexpr const char* kDetail = "in 1 messages";
  const std::vector<RankEnd> ranks = run(kOneMessage, options);
  expect_success(ranks);
  for (const Log& log : logs_of(ranks)) {
    EXPECT_EQ(log.count("settings: "), 1) << log.whole;
    EXPECT_EQ(log.count("NCCL_MESH_QPS 3 (default auto)"), 1) << log.whole;
    EXPECT_EQ(log.count("NCCL_MESH_SLOTS"), 0) << "it is at its default";
    EXPECT_EQ(log.count("policy: set: qps 3; default: signal_interval 16"), 1) << log.whole;
    EXPECT_EQ(log.count("INFO NET/Mesh : rail 0 mesh0:1: 10.0.12."), 1) << log.whole;
    EXPECT_EQ(log.count(kDetail), 0) << log.whole;
  }
  options.environment.emplace_back("NCCL_DEBUG_SUBSYS", "INIT,NET");
  for (const RankEnd& rank : run(kOneMessage, options))
    EXPECT_NE(rank.output.find(kDetail), std::string::npos) << rank.output;
}

// The beginnings of the lines about the cable between a and b, as each of the two has them.
constexpr const char* kCableAtEnd[] = {"peer b: path mesh0:1 10.0.12.1 -> mesh0:1 10.0.12.2 is ",
                                       "peer a: path mesh0:1 10.0.12.2 -> mesh0:1 10.0.12.1 is "};

constexpr const char* kPeerAtEnd[] = {"peer b: ", "peer a: "};

// A line that is long names the ports alone.
constexpr const char* kPathAtEnd[] = {"peer b: path mesh0:1 -> mesh0:1 is ",
                                      "peer a: path mesh0:1 -> mesh0:1 is "};

// Runs rounds until hosts a and b have read what the path between them is.
void rounds_until_path_is(Peer& peer, Job& job, const char* const (&begin)[2],
                          const std::string& what) {
  const auto deadline = std::chrono::steady_clock::now() + patience();
  for (bool said = false; !said;) {
    job.round();
    const auto rank = static_cast<std::size_t>(peer.rank());
    const bool vote = rank > 1 || logged(std::string(begin[rank]) + what);
    const auto votes = peer.all_gather(vote ? "1" : "0");
    said = votes[0] == "1" && votes[1] == "1";
    require(said || std::chrono::steady_clock::now() < deadline, "nobody read: " + what);
  }
}

// The cable between a and b is cut, and messages go over c until it is whole again.
const Scenario kCut("whole_log_cut", [](Peer& peer) {
  Job job(peer);
  job.round();
  Breaker breaker;
  if (peer.rank() == 0) breaker.pull("mesh0");
  rounds_until_path_is(peer, job, kCableAtEnd, "lost: ");
  rounds_until_path_is(peer, job, kPeerAtEnd, "messages go over host c");
  if (peer.rank() == 0) breaker.plug("mesh0");
  rounds_until_path_is(peer, job, kCableAtEnd, "back after ");
  peer.barrier();
});

TEST(WholeLog, ACutIsThreeLinesOnEachOfItsHosts) {
  const std::vector<RankEnd> ranks = run(kCut, triangle());
  expect_success(ranks);
  if (testing::Test::IsSkipped()) return;
  const std::vector<Log> logs = logs_of(ranks);
  for (const std::size_t host : {0u, 1u}) {
    const Log& log = logs[host];
    const std::string cable = kCableAtEnd[host];
    EXPECT_LE(log.lines.size(), 6u + 3u) << log.whole;
    EXPECT_EQ(log.count("WARN "), 1) << log.whole;
    EXPECT_EQ(log.count("WARN NET/Mesh : " + cable + "lost: "), 1) << log.whole;
    EXPECT_EQ(log.count("port is down; a way over other hosts is looked for"), 1) << log.whole;
    EXPECT_EQ(log.count("host a: our port"), 0) << log.whole;
    EXPECT_EQ(
        log.count(std::string("INFO NET/Mesh : ") + kPeerAtEnd[host] + "messages go over host c"),
        1)
        << log.whole;
    EXPECT_EQ(log.count("INFO NET/Mesh : " + cable + "back after "), 1) << log.whole;
    EXPECT_EQ(log.count("; meanwhile messages went over host c"), 1) << log.whole;
  }
  EXPECT_EQ(logs[2].count("WARN "), 0) << logs[2].whole;
}

// The cable between a and b is silent: no port tells, and a's NIC runs out of retries.
const Scenario kSilence("whole_log_silence", [](Peer& peer) {
  Job job(peer);
  job.round();
  Breaker breaker;
  if (peer.rank() == 0) breaker.lose_peer("mesh0", "b");
  rounds_until_path_is(peer, job, kPathAtEnd, "lost: ");
  if (peer.rank() == 0) breaker.find_peer("mesh0", "b");
  rounds_until_path_is(peer, job, kCableAtEnd, "back after ");
  peer.barrier();
});

TEST(WholeLog, ASilentCableIsThreeLinesOnEachOfItsHostsWithCauseAndAdvice) {
  const std::vector<RankEnd> ranks = run(kSilence, triangle());
  expect_success(ranks);
  if (testing::Test::IsSkipped()) return;
  const std::vector<Log> logs = logs_of(ranks);
  for (const std::size_t host : {0u, 1u}) {
    const Log& log = logs[host];
    EXPECT_LE(log.lines.size(), 6u + 3u) << log.whole;
    EXPECT_EQ(log.count("WARN "), 1) << log.whole;
    EXPECT_EQ(log.count("WARN NET/Mesh : " + std::string(kPathAtEnd[host]) + "lost: "), 1)
        << log.whole;
    EXPECT_EQ(log.count("retries exceeded (status 12); check cable, port and MTU; a way over "
                        "other hosts is looked for"),
              1)
        << log.whole;
  }
  EXPECT_EQ(logs[2].count("WARN "), 0) << logs[2].whole;
}

const Scenario kDeath("whole_log_death", [](Peer& peer) {
  Job job(peer);
  job.round();
  peer.barrier();
  if (peer.rank() == 2) {
    ::raise(SIGKILL);
    std::abort();
  }
  while (!job.fails()) {
  }
});

TEST(WholeLog, ADeathIsOneWarningOnEachOtherHost) {
  const std::vector<RankEnd> ranks = run(kDeath, triangle());
  if (testing::Test::IsSkipped()) return;
  const std::vector<Log> logs = logs_of(ranks);
  for (const std::size_t host : {0u, 1u}) {
    const Log& log = logs[host];
    EXPECT_TRUE(ranks[host].finished && ranks[host].end.success()) << log.whole;
    EXPECT_EQ(log.count("WARN NET/Mesh : peer c is lost: nobody listens on its control port"), 1)
        << log.whole;
    EXPECT_EQ(log.count("peer c is lost"), 1) << log.whole;
    // The other host ends its job too, and one of the two does so first.
    EXPECT_LE(log.count("WARN "), 2) << log.whole;
    EXPECT_LE(log.lines.size(), 6u + 2u) << log.whole;
  }
}

// Host b leaves while the others are in a round with it.
const Scenario kAbort("whole_log_abort", [](Peer& peer) {
  Job job(peer);
  job.round();
  peer.barrier();
  if (peer.rank() == 1) {
    job.leave();
  } else {
    require(job.fails(), "a round without host b is good");
  }
  peer.barrier();
});

TEST(WholeLog, AnAbortIsOneWarningOnEachOtherHost) {
  const std::vector<RankEnd> ranks = run(kAbort, triangle());
  expect_success(ranks);
  if (testing::Test::IsSkipped()) return;
  const std::vector<Log> logs = logs_of(ranks);
  for (const std::size_t host : {0u, 2u}) {
    const Log& log = logs[host];
    EXPECT_EQ(log.count("WARN NET/Mesh : peer b: it has closed its end with requests of ours"), 1)
        << log.whole;
    EXPECT_EQ(log.count("WARN "), 1) << log.whole;
    EXPECT_LE(log.lines.size(), 6u + 1u) << log.whole;
  }
  EXPECT_EQ(logs[1].count("WARN "), 0) << logs[1].whole;
}

// Hosts a and c of a ring have a communicator of their own, as b and d have: no host that both know
// joins them, and none of their neighbours shares a secret with them.
const Scenario kGroups("whole_log_groups", [](Peer& peer) {
  const auto api = peer.load();
  const auto communicator =
      open_communicator(*api, 100 + static_cast<std::uint64_t>(peer.rank()) % 2);
  Dormant across(peer, *communicator);
  across.expect_messages_to_fail_in_time();
  peer.barrier();
  across.close();
});

// Returns what the only warning shows within the length of a line.
std::string shown_of_warning(const Log& log) {
  EXPECT_EQ(log.count("WARN "), 1) << log.whole;
  for (const std::string& line : log.lines) {
    if (line.starts_with("WARN ")) return line.substr(kLevelBytes, kLineBytesMax);
  }
  return {};
}

TEST(WholeLog, GroupsWithoutAWayAreOneWarningThatBeginsWithTheRemedy) {
  RunOptions options = triangle();
  options.fabric = "ring4.json";
  const std::vector<RankEnd> ranks = run(kGroups, options);
  expect_success(ranks);
  if (testing::Test::IsSkipped()) return;
  const char* const across[] = {"c", "d", "a", "b"};
  const std::vector<Log> logs = logs_of(ranks);
  bool helped[] = {false, false};
  for (std::size_t host = 0; host < logs.size(); ++host) {
    const std::string shown = shown_of_warning(logs[host]);
    const std::string peer = std::string("NET/Mesh : peer ") + across[host] + ": ";
    const bool helps =
        shown.starts_with(peer + "no path leads to it; set NCCL_MESH_JOB alike on all hosts") &&
        shown.find("no neighbour shares a communicator with us") != std::string::npos;
    helped[host % 2] |= helps;
    // The other end may hear of it first, with the remedy.
    EXPECT_TRUE(helps || shown.starts_with(peer + "its end of the link failed: no path leads to "
                                                  "it; set NCCL_MESH_JOB alike on all hosts"))
        << logs[host].whole;
  }
  EXPECT_TRUE(helped[0] && helped[1]);
}

}  // namespace
}  // namespace mesh::e2e

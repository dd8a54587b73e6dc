// Cuts the control connections of a running job again and again: data goes on, and every element is
// right.
#include "perf/collectives/collective.h"
#include "tests/e2e/line.h"
#include "tests/prelude.h"

#include <dirent.h>
#include <netinet/tcp.h>

namespace mesh::e2e {
namespace {

constexpr int kCuts = 20;
constexpr std::size_t kBytes = std::size_t{1} << 20;

// Returns the process's TCP connections; the plugin's are those that were not there before it.
std::set<int> connections() {
  std::set<int> found;
  DIR* const directory = ::opendir("/proc/self/fd");
  require(directory != nullptr, "no /proc/self/fd");
  while (const dirent* const entry = ::readdir(directory)) {
    const int fd = std::atoi(entry->d_name);
    tcp_info info{};
    socklen_t bytes = sizeof info;
    if (::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) == 0 &&
        info.tcpi_state == TCP_ESTABLISHED)
      found.insert(fd);
  }
  ::closedir(directory);
  return found;
}

// Ends every connection of the plugin, as `ss -K` would, and returns how many there were.
int cut(const std::set<int>& not_these) {
  int count = 0;
  for (const int fd : connections()) {
    if (not_these.count(fd) == 0 && ::shutdown(fd, SHUT_RDWR) == 0) ++count;
  }
  return count;
}

const Scenario kCut("cut", [](Peer& peer) {
  const auto api = peer.load();
  const std::set<int> before = connections();
  const auto communicator = open_communicator(*api);
  Rounds rounds(peer, *communicator, {.bytes_max = kBytes}, 2);
  const auto everybody_has = [&](std::size_t wanted) {
    const std::vector<std::string> all =
        peer.all_gather(connections().size() >= wanted ? "has" : "");
    return std::all_of(all.begin(), all.end(), [](const std::string& one) { return one == "has"; });
  };
  rounds.run(kBytes);
  peer.barrier();
  const std::size_t whole = connections().size();
  int ended = 0;
  for (int i = 0; i < kCuts; ++i) {
    // The ranks cut in turns, in the middle of a run; the next runs go on without a connection or
    // with the new one.
    std::thread cutter;
    if (i % peer.world() == peer.rank()) cutter = std::thread([&] { ended += cut(before); });
    for (int run = 0; run < 10; ++run) rounds.run(kBytes);
    if (cutter.joinable()) cutter.join();
    // The next cut must find connections again, however long they take to come back.
    const auto end = std::chrono::steady_clock::now() + patience();
    while (!everybody_has(whole)) {
      require(std::chrono::steady_clock::now() < end, "the connections do not come back");
      rounds.run(kBytes);
    }
  }
  peer.barrier();
  report_figure("ended", ended);
  report_figure("left",
                static_cast<double>(connections().size()) - static_cast<double>(before.size()));
});

TEST(Resume, ControlConnectionsOfAVerifiedAllReduceAreCutTwentyTimes) {
  const std::vector<RankEnd> ranks = run(kCut, {.fabric = "triangle.json"});
  expect_success(ranks);
  if (testing::Test::IsSkipped()) return;
  double ended = 0;
  int back = 0;
  for (const RankEnd& rank : ranks) {
    ended += figure(rank, "ended");
    EXPECT_GE(figure(rank, "left"), 1) << "a connection is there again\n" << rank.output;
    for (std::size_t at = 0;
         (at = rank.output.find("control connection is back", at)) != std::string::npos; ++at)
      ++back;
  }
  EXPECT_GE(ended, kCuts) << "every cut met a connection";
  EXPECT_GE(back, kCuts);
}

}  // namespace
}  // namespace mesh::e2e

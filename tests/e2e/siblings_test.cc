// Several ranks on each host, which share its cards, ports and cables.
#include "perf/driver/plugin_log.h"
#include "perf/driver/world.h"
#include "tests/e2e/breaker.h"
#include "tests/e2e/line.h"
#include "tests/e2e/ring_job.h"
#include "tests/prelude.h"

namespace mesh::e2e {
namespace {

using perf::Kind;

constexpr std::size_t kMiB = std::size_t{1} << 20;

struct Hosts {
  int hosts = 2, cables = 1, ranks = 2;  // ranks on each host
};

// Returns a fabric of hosts in a ring. NICs n0, n1, ... of each host are joined to p0, p1, ... of
// the next one. Two hosts have one bundle of cables.
std::string fabric_of(const Hosts& shape) {
  const int bundles = shape.hosts == 2 ? 1 : shape.hosts;
  std::vector<std::string> nics(static_cast<std::size_t>(shape.hosts));
  std::string links;
  const auto add = [&](int host, const std::string& name, const std::string& address) {
    std::string& all = nics[static_cast<std::size_t>(host)];
    all += fmt::format(R"({}{{"name": "{}", "address": "{}/24"}})", all.empty() ? "" : ", ", name,
                       address);
  };
  for (int bundle = 0; bundle < bundles; ++bundle) {
    const int next = (bundle + 1) % shape.hosts;
    for (int cable = 0; cable < shape.cables; ++cable) {
      add(bundle, fmt::format("n{}", cable), fmt::format("10.{}.{}.1", bundle, cable));
      add(next, fmt::format("p{}", cable), fmt::format("10.{}.{}.2", bundle, cable));
      links +=
          fmt::format(R"({}{{"ends": ["{}/n{}", "{}/p{}"]}})", links.empty() ? "" : ", ",
                      static_cast<char>('a' + bundle), cable, static_cast<char>('a' + next), cable);
    }
  }
  std::string hosts;
  for (int host = 0; host < shape.hosts; ++host) {
    hosts += fmt::format(R"({}{{"name": "{}", "nics": [{}]}})", host == 0 ? "" : ", ",
                         static_cast<char>('a' + host), nics[static_cast<std::size_t>(host)]);
  }
  return fmt::format(R"({{"name": "siblings", "hosts": [{}], "links": [{}]}})", hosts, links);
}

// Opens a communicator on the card that is the rank's own among those of its host.
driver::Communicator open_own(driver::NetApi& api, std::uint64_t id = 1) {
  const std::string local = driver::variable(process_environment(), "LOCAL_RANK");
  return {api, {.id = id, .device = std::atoi(local.c_str())}};
}

const Scenario kCollectives("siblings_collectives", [](Peer& peer) {
  const auto api = peer.load();
  driver::Communicator communicator = open_own(*api);
  require_success(communicator.open(), "init");
  const std::vector<std::size_t> sizes{0, 64, 8192, kMiB / 4};
  for (const Kind kind : {Kind::AllToAll, Kind::AllReduce}) {
    peer.barrier();
    const auto begin = std::chrono::steady_clock::now();
    const std::clock_t used = std::clock();
    Rounds rounds(peer, communicator, {.kind = kind, .bytes_max = sizes.back()});
    for (const std::size_t size : sizes) {
      rounds.run(size);
      if (kind != Kind::AllToAll || size != sizes.front()) continue;
      const std::chrono::duration<double, std::milli> took =
          std::chrono::steady_clock::now() - begin;
      report_figure("connect_ms", took.count());
      report_figure("processor_ms",
                    1e3 * static_cast<double>(std::clock() - used) / CLOCKS_PER_SEC);
    }
  }
  peer.barrier();
});

void expect_collectives(const RunOptions& options, const char* title) {
  const std::vector<RankEnd> ranks = run(kCollectives, options);
  expect_success(ranks);
  if (ranks.empty()) return;
  double longest_ms = 0, processor_ms = 0;
  for (const RankEnd& rank : ranks) {
    longest_ms = std::max(longest_ms, figure(rank, "connect_ms"));
    processor_ms += figure(rank, "processor_ms");
  }
  std::printf("%s: %zu ranks connect all to all in %.0f ms (%.0f ms of processor time)\n", title,
              ranks.size(), longest_ms, processor_ms);
}
TEST(Siblings, TwoOnEachOfTwoHosts) {
  expect_collectives({.fabric = "pair.json", .ranks_per_host = 2}, "pair");
}
TEST(Siblings, TwoOnEachHostOfASwitch) {
  expect_collectives({.fabric = "switched3.json", .ranks_per_host = 2}, "switched3");
}

// Returns true if a line says this of a path over the card.
bool told(const std::string& nic, const std::string& words) {
  const std::vector<std::string> lines = driver::PluginLog::instance().texts();
  return std::any_of(lines.begin(), lines.end(), [&](const std::string& line) {
    const bool here = line.find("path " + nic + ":") != std::string::npos;
    return here && line.find(words) != std::string::npos;
  });
}

// Cuts the first cable of hosts a and b under traffic of all ranks, and mends it. Each rank of both
// hosts loses its paths over the cable and gets them back, and warns twice at most. The argument is
// the number of ranks on each host.
const Scenario kCut("siblings_cut", [](Peer& peer) {
  constexpr std::size_t kWarningsMax = 2;
  const auto api = peer.load();
  driver::Communicator communicator = open_own(*api);
  require_success(communicator.open(), "init");
  RingJob job(communicator, peer.bootstrap(), Kind::AllToAll);
  Breaker breaker;
  const int host = peer.rank() / std::stoi(peer.argument());
  const auto run_until_all_tell = [&](const std::string& words) {
    const auto end = std::chrono::steady_clock::now() + patience();
    const std::vector<std::string> wanted(static_cast<std::size_t>(peer.world()), "1");
    const auto has_told = [&] { return host > 1 || told(host == 0 ? "n0" : "p0", words); };
    while (peer.all_gather(has_told() ? "1" : "0") != wanted) {
      require(std::chrono::steady_clock::now() < end, "no line that the cable " + words);
      job.verified();
    }
  };
  job.during([&] {
    breaker.wait_for_bytes(RingJob::kBytes);
    breaker.pull("n0");
  });
  run_until_all_tell("is lost");
  job.during([&] { breaker.plug("n0"); });
  run_until_all_tell("is back");
  const std::size_t warnings = driver::PluginLog::instance().warnings();
  require(warnings <= kWarningsMax, std::to_string(warnings) + " warnings of one cut cable");
  peer.barrier();
});

void expect_all(const Hosts& shape) {
  RunOptions options{.fabric_text = fabric_of(shape),
                     .ranks_per_host = shape.ranks,
                     .argument = std::to_string(shape.ranks),
                     .software_only = "its hosts have several ranks, and ports that break"};
  const std::string title =
      fmt::format("{} hosts, {} cables, {} ranks each", shape.hosts, shape.cables, shape.ranks);
  SCOPED_TRACE(title);
  expect_collectives(options, title.c_str());
  expect_run(kCut, options);
}
TEST(Siblings, TwoOnEachOfTwoHostsWithACutCable) { expect_all({.cables = 2, .ranks = 2}); }
TEST(Siblings, EightOnEachOfTwoHostsWithACutCable) { expect_all({.cables = 8, .ranks = 8}); }
TEST(Siblings, TwoOnEachOfARingWithACutCable) { expect_all({.hosts = 4, .ranks = 2}); }
TEST(Siblings, FourOnEachOfARingWithACutCable) {
  expect_all({.hosts = 4, .cables = 2, .ranks = 4});
}

// Two jobs on the same two hosts: rank 0 sends to rank 2, which is killed, and rank 1 to rank 3.
const Scenario kKilled("siblings_killed", [](Peer& peer) {
  constexpr int kVictim = 2;
  const std::vector<pid_t> pids = processes(peer);
  const int job = peer.rank() % 2;
  const LineOptions options{.bytes = 8 * kMiB, .from = job, .to = job + 2};
  if (job == 0) {
    Flow flow(peer, options);
    flow.let_flow(20);
    peer.barrier();
    if (peer.rank() == kVictim) ::raise(SIGKILL);
    return flow.expect_death();
  }
  const auto api = peer.load();
  const auto communicator = open_communicator(*api, 2);
  Line line(peer, *communicator, options);
  peer.barrier();
  constexpr std::uint64_t kMessages = 100;
  stream(line, {.count = kMessages, .bytes = kMiB});
  require(ends_within(pids[kVictim], patience()), "rank 2 has not ended");
  stream(line, {.count = kMessages, .bytes = kMiB, .first_number = kMessages});
  line.close();
  require_success(communicator->close(), "finalize");
});
TEST(Siblings, AKilledRankIsAnErrorForItsJobOnly) {
  const std::vector<RankEnd> ranks =
      run(kKilled, {.ranks_per_host = 2, .environment = {{"NCCL_MESH_PATH_TIMEOUT", "3600"}}});
  if (IsSkipped()) return;
  ASSERT_EQ(ranks.size(), 4u);
  EXPECT_EQ(ranks[2].end.code, SIGKILL) << ranks[2].output;
  for (const std::size_t rank : {0u, 1u, 3u}) {
    EXPECT_TRUE(ranks[rank].finished && ranks[rank].end.success()) << ranks[rank].output;
    EXPECT_EQ(ranks[rank].output.find("WARN NET") == std::string::npos, rank != 0)
        << "rank " << rank << ":\n"
        << ranks[rank].output;
  }
}

}  // namespace
}  // namespace mesh::e2e

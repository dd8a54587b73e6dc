// Breaks hosts and cables on the way of messages between hosts that are not neighbours, after
// random numbers of bytes of a verified job on a ring of four. RELAY_TIMES, RELAY_CLOSES and
// RELAY_SEED in the environment choose how often and when (tests/README.md).
#include "perf/driver/world.h"
#include "tests/e2e/line.h"
#include "tests/e2e/middle_hosts.h"
#include "tests/e2e/ring_job.h"
#include "tests/prelude.h"

namespace mesh::e2e {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr const char* kSoftwareOnly = "its cables and processes are broken from within";
constexpr int kTimes = 4, kCloses = 12;       // if nobody asks for more
constexpr std::chrono::seconds kPromised{2};  // until the death of a rank is an error

struct Ring {
  explicit Ring(Peer& peer)
      : api(peer.load()),
        communicator(open_communicator(*api)),
        job(*communicator, peer.bootstrap(), perf::Kind::AllToAll) {}

  std::unique_ptr<driver::NetApi> api;
  std::unique_ptr<driver::Communicator> communicator;
  RingJob job;
};

void tell_moment(const RingJob& job, int number, const std::string& what, double longest_s) {
  if (!job.leads()) return;
  std::printf("relays: %d: %s: longest round %.1f ms, healthy %.1f ms\n", number, what.c_str(),
              longest_s * 1e3, job.round_s() * 1e3);
  std::fflush(stdout);  // so that no line of the plugin's comes between
}

// Breaks something, mends it, and names it.
struct Breakage {
  std::function<void()> begin, end;
  std::string text;
};

// Some are mended while the job still looks for another way, the others after rounds that have
// found one.
void break_at_moments(Peer& peer, Breakage (*draw)(std::mt19937_64&)) {
  constexpr unsigned kRoundsOutMax = 8;
  const Moments moments = moments_of(peer.argument());
  std::mt19937_64 random(moments.seed);
  Ring ring(peer);
  for (int i = 0; i < moments.times; ++i) {
    const Breakage breakage = draw(random);
    const int rounds_out = static_cast<int>(random() % kRoundsOutMax);
    std::mt19937_64 own(random());
    double longest_s = ring.job.during([&] {
      ring.job.let_flow(own, 2);
      breakage.begin();
      if (rounds_out != 0) return;
      pause_at_random(own, 0.2);
      breakage.end();
    });
    longest_s = std::max(longest_s, ring.job.verified(rounds_out));
    longest_s = std::max(longest_s, ring.job.during(breakage.end));
    tell_moment(ring.job, i + 1, breakage.text + " for " + std::to_string(rounds_out) + " rounds",
                longest_s);
  }
  ring.job.verified(20);
  peer.barrier();
}

const Scenario kCables("relay_cables", [](Peer& peer) {
  break_at_moments(peer, [](std::mt19937_64& random) {
    const int cable = static_cast<int>(random() % kRingHosts);
    return Breakage{.begin = [cable] { cut_cable(cable); },
                    .end = [cable] { mend_cable(cable); },
                    .text = "cable " + cable_name(cable) + " cut"};
  });
});

// Each time the card at one end of a cable is replaced: that of a host whose messages go round
// then, or of a host between.
const Scenario kCards("relay_cards", [](Peer& peer) {
  break_at_moments(peer, [](std::mt19937_64& random) {
    const CableEnd end{.cable = static_cast<int>(random() % kRingHosts), .far = random() % 2 != 0};
    return Breakage{.begin = [end] { take_card(end); },
                    .end = [end] { bring_card(end); },
                    .text = "a card at cable " + cable_name(end.cable) + " replaced, gone"};
  });
});

const Scenario kStopped("relay_stopped", [](Peer& peer) {
  const Moments moments = moments_of(peer.argument());
  std::mt19937_64 random(moments.seed);
  Ring ring(peer);
  const std::vector<pid_t> all = processes(peer);
  for (int i = 0; i < moments.times; ++i) {
    const std::size_t victim = 1 + random() % (kRingHosts - 1);
    std::mt19937_64 own(random());
    double longest_s = ring.job.during([&] {
      ring.job.let_flow(own, 2);
      stop_for(all[victim], 1);
    });
    longest_s = std::max(longest_s, ring.job.verified(3));
    tell_moment(ring.job, i + 1, "host " + std::to_string(victim) + " stopped for 1 s", longest_s);
  }
  peer.barrier();
});

// Kills a rank, which ends the job of the others, soon.
const Scenario kKilledRank("relay_killed_rank", [](Peer& peer) {
  std::mt19937_64 random(moments_of(peer.argument()).seed);
  Ring ring(peer);
  const std::vector<pid_t> all = processes(peer);
  const std::size_t victim = 1 + random() % (kRingHosts - 1);
  std::thread killer([&] {
    if (!ring.job.leads()) return;
    ring.job.let_flow(random, 4);
    ::kill(all[victim], SIGKILL);
  });
  int result = driver::kNetSuccess;
  auto begin = SteadyClock::now();
  const auto end = begin + patience() + clock_bar(kPromised);
  while (result == driver::kNetSuccess && SteadyClock::now() < end) {
    begin = SteadyClock::now();
    result = ring.job.round();
  }
  killer.join();
  report_figure("seconds", std::chrono::duration<double>(SteadyClock::now() - begin).count());
  require(result == driver::kNetRemoteError || result == driver::kNetSystemError,
          std::string("the job ended with ") + driver::net_result_name(result));
});

// Ranks 0 and 2, which are not neighbours, and the hosts between them, which take no part in their
// job but have links with both.
struct Diagonal {
  explicit Diagonal(Peer& peer)
      : api(peer.load()),
        ends(meet(peer.bootstrap(), {0, 2})),
        communicator(open_communicator(*api)),
        neighbours(
            std::make_unique<RingJob>(*communicator, peer.bootstrap(), perf::Kind::AllReduce)) {
    if (ends) job = std::make_unique<RingJob>(*communicator, *ends, perf::Kind::AllToAll);
  }

  std::unique_ptr<driver::NetApi> api;
  std::optional<driver::Bootstrap> ends;
  std::unique_ptr<driver::Communicator> communicator;
  std::unique_ptr<RingJob> neighbours, job;
};

const Scenario kKilledMiddle("relay_killed_middle", [](Peer& peer) {
  std::mt19937_64 random(moments_of(peer.argument()).seed);
  Diagonal diagonal(peer);
  const std::vector<pid_t> all = processes(peer);
  const std::string route = peer.all_gather(route_to("c")).front();
  require(route == "b" || route == "d", "rank 0 reaches rank 2 over '" + route + "'");
  const int victim = route.front() - 'a', other = kRingHosts - victim;
  auto survivors = meet(peer.bootstrap(), {0, 2, other});
  if (diagonal.job != nullptr) {
    double longest_s = diagonal.job->during([&] {
      diagonal.job->let_flow(random, 4);
      ::kill(all[static_cast<std::size_t>(victim)], SIGKILL);
    });
    longest_s = std::max(longest_s, diagonal.job->verified(20));
    require(peer.rank() != 0 || route_to("c") != route, "nothing goes over the other host");
    report_figure("longest", longest_s);
  } else if (peer.rank() == victim) {
    for (;;) ::pause();
  }
  require(survivors->barrier().ok(), "the survivors did not meet");
});

// Stops the host that carries rank 0's messages to rank 2 until they take the other route.
void stop_until_left(pid_t process, const std::string& route) {
  require(::kill(process, SIGSTOP) == 0, "a process was not stopped");
  const auto end = SteadyClock::now() + patience();
  while (route_to("c") == route && SteadyClock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  require(::kill(process, SIGCONT) == 0, "a process was not continued");
  require(route_to("c") != route, "a host that stands still is not left");
}

// Stops a host that only carries: for a second, which is waited for, or for longer.
const Scenario kStoppedMiddle("relay_stopped_middle", [](Peer& peer) {
  const Moments moments = moments_of(peer.argument());
  std::mt19937_64 random(moments.seed);
  Diagonal diagonal(peer);
  const std::vector<pid_t> all = processes(peer);
  for (int i = 0; i < moments.times && diagonal.job != nullptr; ++i) {
    std::string route;
    double longest_s = diagonal.job->during([&] {
      diagonal.job->let_flow(random, 4);
      route = route_to("c");
      const pid_t process = all[static_cast<std::size_t>(route.front() - 'a')];
      if (i % 2 == 0) return stop_for(process, 1);
      stop_until_left(process, route);
    });
    longest_s = std::max(longest_s, diagonal.job->verified(3));
    tell_moment(*diagonal.job, i + 1,
                "host " + route + " between stopped for " + (i % 2 == 0 ? "1 s" : "long"),
                longest_s);
  }
  peer.barrier();
});

// The hosts between end their communicators in the middle of the job of ranks 0 and 2.
const Scenario kClosesFirst("relay_closes_first", [](Peer& peer) {
  const Moments moments = moments_of(peer.argument());
  std::mt19937_64 random(moments.seed + static_cast<std::uint64_t>(peer.rank()));
  const auto api = peer.load();
  auto ends = meet(peer.bootstrap(), {0, 2});
  for (int i = 0; i < moments.times; ++i) {
    const auto communicator = open_communicator(*api, static_cast<std::uint64_t>(i) + 1);
    auto neighbours =
        std::make_unique<RingJob>(*communicator, peer.bootstrap(), perf::Kind::AllReduce);
    if (ends) {
      RingJob job(*communicator, *ends, perf::Kind::AllToAll);
      peer.barrier();
      // Rank 2 has to report that it is there, too.
      std::thread follower([&] {
        if (!job.leads()) static_cast<void>(peer.bootstrap().barrier());
      });
      try {
        job.during([&] { peer.barrier(); });
        follower.join();
      } catch (...) {
        follower.join();
        throw;
      }
      job.verified(2);
    } else {
      peer.barrier();
      neighbours->let_flow(random, 4);
      neighbours.reset();
      require_success(communicator->close(), "finalize");
      peer.barrier();
    }
    neighbours.reset();
    require_success(communicator->close(), "finalize");
  }
  peer.barrier();
});

// The processes between exit, one at a time, and do not wait for the others.
const Scenario kExitsFirst("relay_exits_first", [](Peer& peer) {
  Diagonal diagonal(peer);
  const std::vector<pid_t> all = processes(peer);
  const std::string route = peer.all_gather(route_to("c")).front();
  require(route == "b" || route == "d", "rank 0 reaches rank 2 over '" + route + "'");
  const int first = route.front() - 'a', other = kRingHosts - first;
  auto others = meet(peer.bootstrap(), {0, 2, other});
  if (peer.rank() == first) return;
  if (diagonal.job != nullptr) {
    double longest_s = diagonal.job->during([&] {
      require(ends_within(all[static_cast<std::size_t>(first)], patience()),
              "a host that has finished does not go");
    });
    longest_s = std::max(longest_s, diagonal.job->verified(5));
    report_figure("longest", longest_s);
  }
  require(others->barrier().ok(), "those that stay did not meet");
});

constexpr driver::milliseconds kLongerThanALinger{2500};  // a second, of contexts that have ended

// Both processes between have finished, and stay for the others until those have finished, too.
void exit_first(Peer& peer, void (*leave)()) {
  Diagonal diagonal(peer);
  const std::vector<pid_t> all = processes(peer);
  const bool over_b = peer.all_gather(route_to("c")).front() == "b";
  peer.barrier();
  if (diagonal.job == nullptr) return leave();
  diagonal.job->verified(50);
  if (peer.rank() == 0)
    require(!ends_within(all[over_b ? 1 : 3], kLongerThanALinger),
            "the host between has not stayed");
  diagonal.job->verified(50);
  require(diagonal.ends->barrier().ok(), "the ends did not meet");
  diagonal.job.reset();
  diagonal.neighbours.reset();
  require_success(diagonal.communicator->close(), "finalize");
  for (const std::size_t middle : {1u, 3u})
    require(ends_within(all[middle], patience()), "a host that nobody needs does not go");
}
const Scenario kBothExitFirst("relay_both_exit_first", [](Peer& peer) { exit_first(peer, [] {}); });
// As a program of PyTorch does without destroy_process_group.
const Scenario kBothExitUnfinished("relay_both_exit_unfinished", [](Peer& peer) {
  exit_first(peer, [] { std::exit(EXIT_SUCCESS); });
});

// A ring that has lost a cable for good.
const Scenario kLine("relay_line_of_a_ring", [](Peer& peer) {
  const Moments moments = moments_of(peer.argument());
  std::mt19937_64 random(moments.seed);
  const auto api = peer.load();
  const auto communicator = open_communicator(*api);
  RingJob job(*communicator, peer.bootstrap(), perf::Kind::AllReduce);
  const int cable = static_cast<int>(random() % kRingHosts);
  double longest_s = job.during([&] {
    job.let_flow(random, 2);
    cut_cable(cable);
  });
  longest_s = std::max(longest_s, job.verified(20));
  tell_moment(job, 1, "cable " + cable_name(cable) + " cut for good", longest_s);
  peer.barrier();
});

int number_of(const char* variable, int otherwise) {
  const std::string text = driver::variable(process_environment(), variable);
  return text.empty() ? otherwise : std::atoi(text.c_str());
}
std::uint64_t seed() { return static_cast<std::uint64_t>(number_of("RELAY_SEED", 1)); }
int times() { return number_of("RELAY_TIMES", kTimes); }

RunOptions options(int count, std::uint64_t from_seed) {
  return {.fabric = "ring4.json",
          .argument = std::to_string(count) + " " + std::to_string(from_seed),
          .software_only = kSoftwareOnly,
          .environment = {{"NCCL_DEBUG_SUBSYS", "INIT,NET"}},  // the lines of route_to()
          .timeout = std::chrono::seconds(300 + 60 * count)};
}

void show_moments(const std::vector<RankEnd>& ranks) {
  if (ranks.empty()) return;
  std::istringstream lines(ranks[0].output);
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("relays: ")) std::puts(line.c_str());
}

void expect_moments(const Scenario& scenario, const RunOptions& run_options) {
  const std::vector<RankEnd> ranks = run(scenario, run_options);
  show_moments(ranks);
  expect_success(ranks);
}

TEST(RelayFaults, ACableIsCutAtAnyMoment) { expect_moments(kCables, options(times(), seed())); }
TEST(RelayFaults, ACardIsReplacedAtAnyMoment) { expect_moments(kCards, options(times(), seed())); }
TEST(RelayFaults, AHostIsStoppedForASecond) { expect_moments(kStopped, options(times(), seed())); }
TEST(RelayFaults, AHostBetweenIsStopped) {
  expect_moments(kStoppedMiddle, options(number_of("RELAY_TIMES", 2), seed()));
}
TEST(RelayFaults, TheHostsBetweenCloseFirst) {
  const int closes = number_of("RELAY_CLOSES", kCloses);
  expect_run(kClosesFirst, options(closes, seed()));
  std::printf("relays: %d times the hosts between closed first\n", closes);
}
TEST(RelayFaults, TheHostBetweenExitsFirst) {
  RunOptions exits = options(1, seed());
  // The host that has finished stays for the others this long. A path may also take this long to
  // open, and on a very busy machine that takes two seconds.
  exits.environment.push_back({"NCCL_MESH_PATH_TIMEOUT", "8"});
  const std::vector<RankEnd> ranks = run(kExitsFirst, exits);
  expect_success(ranks);
  if (!testing::Test::IsSkipped() && !ranks.empty())
    std::printf("relays: the host between exited: longest round %.1f ms\n",
                figure(ranks[0], "longest") * 1e3);
}
TEST(RelayFaults, BothHostsBetweenExitFirst) {
  for (const Scenario* const scenario : {&kBothExitFirst, &kBothExitUnfinished}) {
    RunOptions exits = options(1, seed());
    exits.environment.push_back({"NCCL_MESH_PATH_TIMEOUT", "300"});
    expect_run(*scenario, exits);
  }
}
TEST(RelayFaults, ARingWithoutOneCableIsALine) {
  for (int i = 0; i < std::min(times(), kRingHosts); ++i)
    expect_moments(kLine, options(1, seed() + static_cast<std::uint64_t>(i)));
}

TEST(RelayFaults, AKilledRankIsAnErrorSoon) {
  for (int i = 0; i < times(); ++i) {
    RunOptions deadly = options(1, seed() + static_cast<std::uint64_t>(i));
    // This path time-out is so long that only a rank's death can end the job.
    deadly.environment.push_back({"NCCL_MESH_PATH_TIMEOUT", "3600"});
    const std::vector<RankEnd> ranks = run(kKilledRank, deadly);
    if (testing::Test::IsSkipped()) return;
    ASSERT_EQ(ranks.size(), std::size_t{kRingHosts});
    double slowest_s = 0;
    int killed = 0;
    for (const RankEnd& rank : ranks) {
      if (!rank.end.exited && rank.end.code == SIGKILL && rank.finished) {
        ++killed;
        continue;
      }
      EXPECT_TRUE(rank.finished && rank.end.success()) << rank.end.text() << "\n" << rank.output;
      EXPECT_LT(figure(rank, "seconds"), clock_bar_s(kPromised.count())) << rank.output;
      slowest_s = std::max(slowest_s, figure(rank, "seconds"));
    }
    EXPECT_EQ(killed, 1);
    std::printf("relays: %d: a rank killed: error after %.1f ms\n", i + 1, slowest_s * 1e3);
  }
}

TEST(RelayFaults, AKilledHostBetweenIsReplaced) {
  for (int i = 0; i < times(); ++i) {
    const std::vector<RankEnd> ranks =
        run(kKilledMiddle, options(1, seed() + static_cast<std::uint64_t>(i)));
    if (testing::Test::IsSkipped()) return;
    ASSERT_EQ(ranks.size(), std::size_t{kRingHosts});
    int killed = 0;
    for (const RankEnd& rank : ranks) {
      const bool victim = !rank.end.exited && rank.end.code == SIGKILL && rank.finished;
      killed += victim ? 1 : 0;
      EXPECT_TRUE(victim || (rank.finished && rank.end.success())) << rank.end.text() << "\n"
                                                                   << rank.output;
    }
    EXPECT_EQ(killed, 1);
    std::printf("relays: %d: a host between killed: longest round %.1f ms\n", i + 1,
                figure(ranks[0], "longest") * 1e3);
  }
}

}  // namespace
}  // namespace mesh::e2e

// A job over two cables goes on when one of them is lost, after any number of bytes and in any way,
// and uses it again when it is back. FAILOVER_TIMES, FAILOVER_SEED and FAILOVER_ALL in the
// environment choose how often, when and how (tests/README.md).
#include "perf/collectives/collective.h"
#include "perf/driver/world.h"
#include "tests/e2e/breaker.h"
#include "tests/e2e/line.h"
#include "tests/e2e/process_figures.h"
#include "tests/prelude.h"

namespace mesh::e2e {
namespace {

using SteadyClock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

// The rates are so slow that the cables limit and not the machine: so a lost path shows.
constexpr const char* kTwoCables = R"({"name": "two_cables",
  "hosts": [{"name": "a", "nics": [{"name": "mesh0", "address": "10.0.12.1/24"}, {"name": "mesh1",
     "address": "10.0.13.1/24"}]},
            {"name": "b", "nics": [{"name": "mesh0", "address": "10.0.12.2/24"}, {"name": "mesh1",
               "address": "10.0.13.2/24"}]}],
  "links": [{"ends": ["a/mesh0", "b/mesh0"], "gbps": 0.4}, {"ends": ["a/mesh1", "b/mesh1"],
     "gbps": 0.4}]})";
constexpr const char* kSoftwareOnly = "its ports are broken through the software fabric's own door";
constexpr std::size_t kBytes = std::size_t{1} << 20;
constexpr int kHealthyRounds = 5;
constexpr int kSpeedRounds = 4;
constexpr std::uint64_t kLooksMost = 64;        // looks at the fabric beside a round
constexpr std::chrono::seconds kBackWithin{5};  // until a cable carries whose card was replaced
constexpr double kShare = 0.2;  // of what a round posts: a path that is in use carries about a half

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

// A job of two ranks that runs verified rounds in lockstep; rank 0 breaks and mends, and decides
// for both.
class Job {
 public:
  Job(Peer& peer, perf::Kind kind)
      : peer_(peer), api_(peer.load()), communicator_(open_communicator(*api_)) {
    const perf::Team team{communicator_.get(), &peer.bootstrap(), 1, patience()};
    std::string error;
    collective_ = perf::Collective::create(team, {.kind = kind, .bytes_max = kBytes}, error);
    require(collective_ != nullptr, error);
    count_ = collective_->count_for(kBytes);
    settle();
  }

  // Measures what a round takes now, for the figures: others may use the machine, too.
  void settle() {
    std::vector<double> times;
    times.reserve(kHealthyRounds);
    for (int i = 0; i < kHealthyRounds; ++i) times.push_back(verified());
    healthy_s_ = median(times);
  }

  bool leads() const { return peer_.rank() == 0; }
  double healthy_s() const { return healthy_s_; }
  bool agree(bool own) { return peer_.all_gather(own ? "1" : "0").front() == "1"; }
  int round(std::size_t& wrong) { return collective_->check(count_, ++round_, wrong); }
  double verified() {
    std::size_t wrong = 0;
    const auto begin = SteadyClock::now();
    require_success(round(wrong), "round " + std::to_string(round_));
    require(wrong == 0,
            std::to_string(wrong) + " wrong elements in round " + std::to_string(round_));
    return Seconds(SteadyClock::now() - begin).count();
  }
  double unverified_s() {
    const auto begin = SteadyClock::now();
    require_success(collective_->run(count_, kSpeedRounds), "rounds");
    return Seconds(SteadyClock::now() - begin).count();
  }
  // Runs rounds until every path carries its share again.
  void until_shared(Breaker& breaker) {
    const auto end = SteadyClock::now() + patience();
    for (bool shared = false; !shared;) {
      const std::vector<double> before = posted(breaker);
      verified();
      const std::vector<double> after = posted(breaker);
      double sum = 0, least = 1e18;
      for (std::size_t i = 0; i < after.size(); ++i) {
        sum += after[i] - before[i];
        least = std::min(least, after[i] - before[i]);
      }
      shared = agree(least > sum * kShare);
      require(shared || SteadyClock::now() < end, "a path that is back carries nothing");
    }
  }

 private:
  std::vector<double> posted(Breaker& breaker) const {
    std::vector<double> bytes;
    if (leads())
      for (const soft::NicSpec& nic : breaker.nics())
        bytes.push_back(static_cast<double>(breaker.bytes(nic.name)));
    return bytes;
  }

  Peer& peer_;
  const std::unique_ptr<driver::NetApi> api_;
  const std::unique_ptr<driver::Communicator> communicator_;
  std::unique_ptr<perf::Collective> collective_;
  std::size_t count_ = 0;
  std::uint64_t round_ = 0;
  double healthy_s_ = 0;
};

// Runs verified rounds while rank 0 breaks the fabric on a thread of its own: at least kRoundsMin,
// until it is done. Returns how much longer than healthy rounds they took, in seconds.
template <typename Act>
double during(Job& job, const Act& act) {
  constexpr int kRoundsMin = 5;
  std::string failure;
  std::atomic<bool> acted{false};
  std::thread other([&] {
    try {
      if (job.leads()) act();
    } catch (const Failure& why) {
      failure = why.what();
    }
    acted = true;
  });
  double extra_s = 0;
  try {
    for (int round = 0; round < kRoundsMin || !job.agree(acted); ++round)
      extra_s += std::max(0.0, job.verified() - job.healthy_s());
  } catch (...) {
    other.join();
    throw;
  }
  other.join();
  require(failure.empty(), failure);
  return extra_s;
}

struct Plan {
  int kind = 0, times = 0, blows = kBlows;  // only the first so many blows are drawn
  std::uint64_t seed = 0;
};
Plan plan_of(const std::string& argument) {
  Plan plan;
  std::istringstream(argument) >> plan.kind >> plan.times >> plan.blows >> plan.seed;
  return plan;
}

// Strikes one blow after another, each after a random number of bytes of the rounds that run.
const Scenario kBlowsAtRandom("blows", [](Peer& peer) {
  const Plan plan = plan_of(peer.argument());
  Job job(peer, static_cast<perf::Kind>(plan.kind));
  Breaker breaker;
  std::mt19937_64 random(plan.seed);
  std::vector<double> lost_ms, back;
  for (int i = 0; i < plan.times; ++i) {
    const auto blow = static_cast<Blow>(
        plan.times <= plan.blows ? i
                                 : static_cast<int>(random() % static_cast<unsigned>(plan.blows)));
    const std::string nic = breaker.nics()[random() % breaker.nics().size()].name;
    job.settle();
    const std::uint64_t at_bytes = random() % (2 * kBytes), which = random();
    const double before_s = job.unverified_s();
    const double extra_s = during(job, [&] {
      breaker.wait_for_bytes(at_bytes);
      breaker.look_on(which % kLooksMost);  // posted work may be anywhere on its way
      breaker.strike(blow, nic, which);
    });
    if (job.leads()) breaker.plug(nic);
    job.until_shared(breaker);
    const double after_s = job.unverified_s();
    lost_ms.push_back(extra_s * 1e3);
    back.push_back(before_s / after_s);
    if (job.leads())
      std::printf("failover: %d: %s %s after %.1f KiB: %.1f ms lost, bandwidth back to %.1f %%\n",
                  i + 1, nic.c_str(), name_of(blow), static_cast<double>(at_bytes) / 1024,
                  lost_ms.back(), back.back() * 100);
  }
  if (!job.leads()) return;
  std::sort(lost_ms.begin(), lost_ms.end());
  report_figure("lost_min_ms", lost_ms.front());
  report_figure("lost_median_ms", median(lost_ms));
  report_figure("lost_max_ms", lost_ms.back());
  report_figure("back_median", median(back));
});

// Replaces the card of one cable again and again. Each time both cables carry soon after the new
// card is there, and at the end the process holds no more than before.
const Scenario kReplacedCards("replaced_cards", [](Peer& peer) {
  const Plan plan = plan_of(peer.argument());
  Job job(peer, static_cast<perf::Kind>(plan.kind));
  Breaker breaker;
  job.until_shared(breaker);
  const ProcessFigures before = settled_process_figures();
  std::mt19937_64 random(plan.seed);
  double longest_s = 0;
  for (int i = 0; i < plan.times; ++i) {
    const std::string nic = breaker.nics()[random() % breaker.nics().size()].name;
    const std::uint64_t at_bytes = random() % (2 * kBytes), looks = random() % kLooksMost;
    during(job, [&] {
      breaker.wait_for_bytes(at_bytes);
      breaker.strike(Blow::Replaced, nic, 0);
      breaker.look_on(looks);
    });
    const auto begin = SteadyClock::now();
    if (job.leads()) breaker.plug(nic);
    job.until_shared(breaker);
    longest_s = std::max(longest_s, Seconds(SteadyClock::now() - begin).count());
  }
  report_figure("longest_s", longest_s);
  ProcessFigures most = before;
  most.mappings = LONG_MAX;  // the allocator's arenas for threads
  const ProcessFigures after = process_figures_down_to(most, patience());
  require(after.threads <= before.threads && after.descriptors <= before.descriptors,
          "held before: " + text_of(before) + "; after: " + text_of(after));
  report_figure("mappings_before", static_cast<double>(before.mappings));
  report_figure("mappings_after", static_cast<double>(after.mappings));
});

// Breaks a path that is being mended again, after none, some or many looks at the fabric.
const Scenario kWhileRecovering("while_recovering", [](Peer& peer) {
  Job job(peer, perf::Kind::AllReduce);
  Breaker breaker;
  const std::string first = breaker.nics()[0].name, second = breaker.nics()[1].name;
  for (const std::uint64_t gap : {0u, 10u, 100u}) {
    during(job, [&] {
      breaker.pull(first);
      breaker.look_on(gap);
      breaker.strike(Blow::Adapter, second, 0);
      breaker.look_on(gap);
      breaker.plug(first);
      breaker.look_on(gap);
      breaker.strike(Blow::NextWrite, first, 0);
    });
    if (job.leads()) breaker.plug(first);
    job.until_shared(breaker);
  }
});

RunOptions options(const std::string& argument = "") {
  return {.fabric_text = kTwoCables,
          .argument = argument,
          .software_only = kSoftwareOnly,
          // Both cables carry the job. A silent port is an error after 50 ms instead of two
          // seconds, so that what recovery takes can be seen.
          .environment = {{"NCCL_IB_TIMEOUT", "12"},
                          {"NCCL_IB_RETRY_CNT", "2"},
                          {"NCCL_MESH_RAILS", "all"},
                          {"NCCL_DEBUG_SUBSYS", "INIT,NET"}},  // each link's loss
          .timeout = std::chrono::seconds(600)};
}

std::string argument(perf::Kind kind, const Plan& plan) {
  return std::to_string(static_cast<int>(kind)) + " " + std::to_string(plan.times) + " " +
         std::to_string(plan.blows) + " " + std::to_string(plan.seed);
}

TEST(Failover, EveryBlowDuringAnAllReduce) {
  expect_run(kBlowsAtRandom,
             options(argument(perf::Kind::AllReduce, {.times = kBlows, .seed = 1})));
}
TEST(Failover, EveryBlowDuringTransfers) {
  expect_run(kBlowsAtRandom, options(argument(perf::Kind::SendRecv, {.times = kBlows, .seed = 2})));
}
// Rank 0's card is replaced; it sends and receives over it.
void expect_cards_back(int times, std::uint64_t seed) {
  const std::vector<RankEnd> ranks =
      run(kReplacedCards, options(argument(perf::Kind::AllReduce, {.times = times, .seed = seed})));
  expect_success(ranks);
  if (testing::Test::IsSkipped() || ranks.empty()) return;
  EXPECT_LT(figure(ranks[0], "longest_s"), clock_bar_s(kBackWithin.count())) << ranks[0].output;
  std::printf(
      "failover: a card replaced %d times: both cables carry %.1f s later at most; %.0f mappings "
      "before, %.0f after\n",
      times, figure(ranks[0], "longest_s"), figure(ranks[0], "mappings_before"),
      figure(ranks[0], "mappings_after"));
}
TEST(Failover, ReplacedCardsCarryAgain) { expect_cards_back(4, 3); }
// In ring 2, as e2e_failover_cards.
TEST(Failover, TwentyReplacedCardsCarryAgain) {
  if (!driver::switched_on(process_environment(), "FAILOVER_CARDS"))
    GTEST_SKIP() << "FAILOVER_CARDS is not set; e2e_failover_cards does";
  expect_cards_back(20, 4);
}
TEST(Failover, FailuresWhileRecovering) { expect_run(kWhileRecovering, options()); }

// Run by hand, on an idle machine (tests/README.md): not part of a run of all tests.
TEST(Failover, RandomMoments) {
  const Environment environment = process_environment();
  const int times = std::atoi(driver::variable(environment, "FAILOVER_TIMES").c_str());
  if (times <= 0) GTEST_SKIP() << "FAILOVER_TIMES is not set (tests/README.md)";
  const std::uint64_t seed =
      std::strtoull(driver::variable(environment, "FAILOVER_SEED").c_str(), nullptr, 10);
  const int blows = driver::switched_on(environment, "FAILOVER_ALL") ? kBlows : 1;
  RunOptions long_run =
      options(argument(perf::Kind::AllReduce, {.times = times, .blows = blows, .seed = seed}));
  long_run.timeout = std::chrono::seconds(60 + 20 * times);
  const std::vector<RankEnd> ranks = run(kBlowsAtRandom, long_run);
  expect_success(ranks);
  if (testing::Test::IsSkipped() || ranks.empty()) return;
  std::istringstream lines(ranks[0].output);
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("failover: ")) std::puts(line.c_str());
  std::printf(
      "failover: %d times with seed %llu: time lost min %.1f, median %.1f, max %.1f ms; bandwidth "
      "back to %.1f %% (median)\n",
      times, static_cast<unsigned long long>(seed), figure(ranks[0], "lost_min_ms"),
      figure(ranks[0], "lost_median_ms"), figure(ranks[0], "lost_max_ms"),
      figure(ranks[0], "back_median") * 100);
  EXPECT_GE(figure(ranks[0], "back_median"), 0.95);
}

}  // namespace
}  // namespace mesh::e2e

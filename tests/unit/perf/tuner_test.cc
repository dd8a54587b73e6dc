#include "perf/mesh_tune/tuner.h"

#include "perf/mesh_tune/conf.h"
#include "perf/mesh_tune/sweep.h"
#include "src/base/config.h"
#include "src/base/nccl_conf.h"
#include "tests/prelude.h"

namespace mesh::tune {
namespace {

using tuning::Knob, tuning::KnobValues;

using Rounds = std::vector<double>;

const Stage kStage{.knob = tuning::Knob::Qps,
                   .values = {1, 2, 4},
                   .points = {{65536, Figure::Stream}, {1 << 20, Figure::Stream}}};

// Makes a trial of two points. The rounds alternate by `wobble` around their middle.
Trial trial(std::optional<std::int64_t> value, double small, double large, double wobble = 0) {
  Trial made{.value = value, .times = {}};
  for (const double middle : {small, large}) {
    Rounds rounds;
    for (int i = 0; i < 9; ++i) rounds.push_back(middle * (1 + (i % 2 == 0 ? wobble : -wobble)));
    made.times.push_back(rounds);
  }
  return made;
}

using Chosen = std::pair<std::int64_t, std::string>;

// Returns the value that wins, 0 if none does, and why.
Chosen chosen(const std::vector<Trial>& others, const Trial& repeated = trial({}, 100, 100)) {
  const Choice choice = choose(kStage, trial({}, 100, 100), repeated, others);
  return {choice.winner ? choice.candidates[*choice.winner].value : 0, choice.why};
}

TEST(Sweep, TheFastestThatIsWorseNowhereWins) {
  const Chosen none{0, "none is faster by more than the noise"};
  EXPECT_EQ(chosen({trial(1, 100, 90), trial(2, 100, 80), trial(8, 110, 50)}),
            Chosen(2, "20.0 % faster at 1M 8 in flight (noise 2.0 %), slower nowhere"))
      << "8 is far better at one size, but worse at the other";
  EXPECT_EQ(chosen({trial(1, 100, 95)}).first, 1) << "on a still machine 5 % is a gain";
  EXPECT_EQ(chosen({trial(1, 100, 95)}, trial({}, 100, 100, 0.08)), none)
      << "where the same setting measured again is 8 % off, it is not";
  EXPECT_EQ(chosen({trial(1, 98.5, 98.5)}), none) << "nothing below 2 % counts";
  Trial lucky = trial(1, 100, 100);
  for (const std::size_t round : {0u, 1u, 2u}) lucky.times[1][round] = 10;
  EXPECT_EQ(chosen({lucky}), none) << "a winner must win in most rounds";
  EXPECT_EQ(chosen({trial(1, 50, 110)}),
            Chosen(0, "each that is faster somewhere is slower elsewhere"));
}

TEST(Sweep, DriftThatHitsAllAlikeDecidesNothing) {
  Trial present = trial({}, 100, 100), repeated = present, other = trial(1, 100, 100);
  for (Trial* each : {&present, &repeated, &other}) {
    for (std::size_t round = 0; round < 9; ++round)
      each->times[0][round] *= 1 + static_cast<double>(round);
  }
  EXPECT_FALSE(choose(kStage, present, repeated, std::vector<Trial>{other}).winner);
}

TEST(Sweep, PlansStayWithinTheRangesAndOneRequestWithinTheWindow) {
  for (const Effort effort : {Effort::Quick, Effort::Full}) {
    const Plan plan = plan_sweep(effort);
    EXPECT_GE(plan.rounds, 5);
    std::int64_t longest = 524288, least = INT64_MAX;
    for (const Stage& stage : plan.stages) {
      EXPECT_FALSE(stage.points.empty());
      for (const std::int64_t value : stage.values) {
        Environment environment{{tuning::info(stage.knob).setting, std::to_string(value)}};
        environment.emplace("NCCL_MESH_WR_BYTES", "4096");  // leaves room for few bytes in flight
        EXPECT_TRUE(load_settings(environment).ok())
            << tuning::info(stage.knob).key << " " << value;
        if (stage.knob == tuning::Knob::WrBytes) longest = std::max(longest, value);
        if (stage.knob == tuning::Knob::InflightBytes) least = std::min(least, value);
      }
    }
    EXPECT_LE(longest, least);
  }
}

TEST(Compare, MediansAndQuartiles) {
  EXPECT_EQ(median({4, 1, 2, 3}), 2.5);
  EXPECT_EQ(median({}), 0);
  EXPECT_EQ(quantile({5, 4, 3, 2, 1}, 0.25), 2);
  EXPECT_EQ(quantile({}, 0.5), 0);
}

TEST(Compare, ARoundThatWasSlowForBothCountsAsAnyOther) {
  const Comparison half = compare(Rounds{5, 500, 5}, Rounds{10, 1000, 10});
  for (const double each : {half.ratio, half.low, half.high}) EXPECT_EQ(each, 0.5);
  EXPECT_EQ(compare(Rounds{}, Rounds{1}).ratio, 1) << "without times nothing differs";
  EXPECT_EQ(compare(Rounds{1}, Rounds{0}).ratio, 1);
}

TEST(Compare, AGainBelowTheNoiseOrOfSomeRoundsOnlyIsNone) {
  EXPECT_EQ(judge({.ratio = 0.97, .low = 0.96, .high = 0.98}, 0.02), Verdict::Better);
  EXPECT_EQ(judge({.ratio = 0.97, .low = 0.96, .high = 0.98}, 0.05), Verdict::Same);
  EXPECT_EQ(judge({.ratio = 1.03, .low = 1.02, .high = 1.04}, 0.02), Verdict::Worse);
  EXPECT_EQ(judge({.ratio = 0.9, .low = 0.8, .high = 1.01}, 0.02), Verdict::Same);
  EXPECT_EQ(judge({.ratio = 1.1, .low = 0.99, .high = 1.2}, 0.02), Verdict::Same);
}

// A pair of hosts whose times come from a formula.
class FakeBench final : public Bench {
 public:
  std::function<double(const KnobValues&, const Point&)> time = [](const KnobValues&,
                                                                   const Point&) { return 10.0; };
  int calls = 0, fail_at = -1;

  std::vector<double> measure(const KnobValues& settings, std::span<const Point> points,
                              std::string& why) override {
    if (calls++ == fail_at) why = "the cable fell out";
    std::vector<double> times;
    for (const Point& point : points) times.push_back(time(settings, point));
    return why.empty() ? times : std::vector<double>();
  }
  const MeasuredOn& ground() const override { return ground_; }
  bool is_noisy() const override { return true; }

 private:
  const MeasuredOn ground_{.label = "a formula", .devices = {"d0", "d1"}};
};

constexpr Point kSmall{8, Figure::OneWay}, kLarge{1 << 20, Figure::Stream};

TunerOptions options() {
  TunerOptions options;
  options.plan = {
      .stages = {{Knob::Qps, {1, 2}, {kLarge}}, {Knob::WrBytes, {131072, 262144}, {kLarge}}},
      .final_points = {kSmall},
      .rounds = 5};
  options.progress = [](const std::string&) {};
  return options;
}

Report tuned(FakeBench& bench, const TunerOptions& how) {
  std::string why;
  std::optional<Report> report = tune(bench, how, why);
  EXPECT_TRUE(report) << why;
  return report.value_or(Report{});
}

TEST(Tuner, EachStageStandsOnTheWinnersBefore) {
  FakeBench bench;
  bench.time = [](const KnobValues& settings, const Point& point) {
    if (point == kSmall) return 1.0;
    const double by_qps = settings[Knob::Qps] == 2 ? 8 : 10;
    // Short work requests pay off only with two queue pairs.
    return settings[Knob::Qps] == 2 && settings[Knob::WrBytes] == 131072 ? by_qps / 2 : by_qps;
  };
  const Report report = tuned(bench, options());
  EXPECT_EQ(report.settings[Knob::Qps], 2);
  EXPECT_EQ(report.settings[Knob::WrBytes], 131072);
  EXPECT_EQ(report.measured.label, "a formula");
  ASSERT_EQ(report.gains.size(), 2u) << "the plan's point, and the one where the winners won";
  EXPECT_EQ(report.gains[1].default_us, 10);
  EXPECT_EQ(report.gains[1].tuned_us, 4);
}

TEST(Tuner, WinnersAreLinesOfNcclConfBelowTheirEvidence) {
  FakeBench bench;
  bench.time = [](const KnobValues& settings, const Point&) {
    return settings[Knob::Qps] == 2 ? 5.0 : 10.0;
  };
  Environment environment;
  std::string comments;
  const std::string text = conf_text(tuned(bench, options()), "today", "mesh_tune -o a\nb=c");
  for (std::size_t at = 0, end; at < text.size(); at = end + 1) {
    end = text.find('\n', at);
    ASSERT_NE(end, std::string::npos);
    const std::string line = text.substr(at, end - at);
    if (auto set = read_conf_line(line)) {
      environment.insert(*std::move(set));
    } else {
      comments += line + "\n";
    }
  }
  EXPECT_EQ(environment, (Environment{{"NCCL_MESH_QPS", "2"}}));
  EXPECT_NE(comments.find("# Measured today on a formula, by: mesh_tune -o a?b=c\n"),
            std::string::npos)
      << comments;
  EXPECT_NE(comments.find("devices d0, d1\n"), std::string::npos) << comments;
  EXPECT_NE(comments.find("us with the defaults, 5.000 us with these"), std::string::npos)
      << comments;
}

TEST(Tuner, WhereNothingIsFasterNothingIsChosen) {
  FakeBench bench;
  const Report report = tuned(bench, options());
  EXPECT_EQ(report.settings, KnobValues());
  EXPECT_TRUE(report.whole.empty());
  EXPECT_NE(report.verdict.find("the defaults hold"), std::string::npos);
}

TEST(Tuner, AChoiceThatIsSlowerElsewhereIsDroppedAsAWhole) {
  FakeBench bench;
  bench.time = [](const KnobValues& settings, const Point& point) {
    const bool changed = settings[Knob::Qps] == 2;
    return point == kSmall ? (changed ? 2.0 : 1.0) : (changed ? 5.0 : 10.0);
  };
  const Report report = tuned(bench, options());
  EXPECT_EQ(report.stages[0].choice.winner, 1u);
  EXPECT_EQ(report.settings, KnobValues());
  EXPECT_EQ(report.verdict,
            "the defaults hold: the winners together are 100.0 % slower at 8 one way");
}

TEST(Tuner, WhenTheTimeIsOverStagesAreLeftOutAndAFailureIsTold) {
  FakeBench bench;
  TunerOptions how = options();
  how.limit = std::chrono::seconds(0);
  const Report report = tuned(bench, how);
  EXPECT_EQ(bench.calls, 0);
  for (const StageReport& stage : report.stages)
    EXPECT_EQ(stage.choice.why, "the time limit was reached");
  bench.fail_at = 7;
  std::string why;
  EXPECT_FALSE(tune(bench, options(), why));
  EXPECT_EQ(why, "the cable fell out");
}

}  // namespace
}  // namespace mesh::tune

#include "perf/mesh_tune/tuner.h"

#include "perf/mesh_tune/conf.h"
#include "src/base/nccl_conf.h"
#include "tests/prelude.h"

namespace mesh::tune {
namespace {

using tuning::Knob, tuning::KnobValues;

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

TEST(Tuner, WhenTheTimeIsOverStagesAreLeftOut) {
  FakeBench bench;
  TunerOptions how = options();
  how.limit = std::chrono::seconds(0);
  const Report report = tuned(bench, how);
  EXPECT_EQ(bench.calls, 0);
  for (const StageReport& stage : report.stages)
    EXPECT_EQ(stage.choice.why, "the time limit was reached");
}

TEST(Tuner, AFailureIsTold) {
  FakeBench bench;
  bench.fail_at = 7;
  std::string why;
  EXPECT_FALSE(tune(bench, options(), why));
  EXPECT_EQ(why, "the cable fell out");
}

}  // namespace
}  // namespace mesh::tune

#include "perf/mesh_tune/tuner.h"

#include <fmt/format.h>

#include <algorithm>

namespace mesh::tune {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kRoundsMin = 3;  // fewer rounds have no useful spread

class Tuner {
 public:
  Tuner(Bench& bench, const TunerOptions& options)
      : bench_(bench), options_(options), end_(Clock::now() + options.limit) {}

  bool run(std::string& why) {
    report_.measured = bench_.ground();
    for (const Stage& stage : options_.plan.stages) {
      if (!run_stage(stage, why)) return false;
    }
    return compare_whole(why);
  }
  Report& report() { return report_; }

 private:
  // One set of settings with its times.
  struct Contender {
    tuning::KnobValues settings;
    Trial trial;
  };

  bool over() const { return Clock::now() >= end_; }
  int rounds() const { return bench_.is_noisy() ? options_.plan.rounds : 1; }

  // Runs each set once in a round, in another order each time. Returns the number of whole rounds,
  // or a number below 0 if it fails; `why` says why.
  int run_rounds(std::vector<Contender>& contenders, std::span<const Point> points,
                 const std::string& what, std::string& why) {
    for (Contender& each : contenders) each.trial.times.resize(points.size());
    for (int round = 0; round < rounds(); ++round) {
      if (over()) return round;
      options_.progress(fmt::format("{}: round {} of {}", what, round + 1, rounds()));
      for (std::size_t i = 0; i < contenders.size(); ++i) {
        Contender& turn = contenders[(i + static_cast<std::size_t>(round)) % contenders.size()];
        const std::vector<double> times = bench_.measure(turn.settings, points, why);
        if (times.size() != points.size()) return -1;
        for (std::size_t point = 0; point < points.size(); ++point)
          turn.trial.times[point].push_back(times[point]);
      }
    }
    return rounds();
  }

  bool run_stage(const Stage& stage, std::string& why) {
    StageReport& report = report_.stages.emplace_back(StageReport{.stage = stage, .choice = {}});
    // The present setting comes twice, and then the others.
    std::vector<Contender> contenders(2, Contender{.settings = chosen_, .trial = {}});
    for (const std::int64_t value : stage.values) {
      Contender other{.settings = chosen_, .trial = {.value = value, .times = {}}};
      other.settings[stage.knob] = value;
      contenders.push_back(std::move(other));
    }
    const int done = run_rounds(contenders, stage.points, tuning::info(stage.knob).key, why);
    if (done < 0) return false;
    if (done < std::min(kRoundsMin, rounds())) {
      report.choice.why = "the time limit was reached";
      return true;
    }
    report.rounds = done;
    std::vector<Trial> others;
    for (std::size_t i = 2; i < contenders.size(); ++i)
      others.push_back(std::move(contenders[i].trial));
    report.choice = choose(stage, contenders[0].trial, contenders[1].trial, others);
    if (report.choice.winner)
      chosen_[stage.knob] = report.choice.candidates[*report.choice.winner].value;
    return true;
  }

  // Returns the sizes of the plan, and those at which the winners won.
  std::vector<Point> points_of_whole() const {
    std::vector<Point> points = options_.plan.final_points;
    for (const StageReport& stage : report_.stages) {
      if (!stage.choice.winner) continue;
      for (const PointVerdict& each : stage.choice.candidates[*stage.choice.winner].points) {
        const bool there = std::find(points.begin(), points.end(), each.point) != points.end();
        if (each.verdict == Verdict::Better && !there) points.push_back(each.point);
      }
    }
    return points;
  }

  // Checks that all winners together are no loss, because each stage looked at a few sizes. The
  // time limit does not shorten this, because without it nothing may be chosen.
  bool compare_whole(std::string& why) {
    if (chosen_ == tuning::KnobValues()) {
      report_.verdict = "the defaults hold: nothing was faster by more than the noise";
      return true;
    }
    end_ = Clock::time_point::max();
    const std::vector<Point> points = points_of_whole();
    std::vector<Contender> contenders(3);
    contenders[2].settings = chosen_;
    if (run_rounds(contenders, points, "all winners", why) < 0) return false;
    report_.whole =
        judge_points(points, contenders[0].trial, contenders[1].trial, contenders[2].trial);
    for (std::size_t i = 0; i < points.size(); ++i) {
      report_.gains.push_back({.point = points[i],
                               .default_us = median(contenders[0].trial.times[i]),
                               .tuned_us = median(contenders[2].trial.times[i]),
                               .noise = report_.whole[i].noise});
    }
    const auto some = [&](Verdict verdict) {
      return std::find_if(report_.whole.begin(), report_.whole.end(),
                          [&](const PointVerdict& each) { return each.verdict == verdict; });
    };
    const auto worse = some(Verdict::Worse);
    if (worse != report_.whole.end()) {
      report_.verdict =
          fmt::format("the defaults hold: the winners together are {:.1f} % slower at {}",
                      100 * (worse->comparison.ratio - 1), point_name(worse->point));
      return true;
    }
    if (some(Verdict::Better) == report_.whole.end()) {
      report_.verdict = "the defaults hold: the winners together gain no more than the noise";
      return true;
    }
    report_.settings = chosen_;
    report_.verdict = "the winners are faster than the defaults, and nowhere slower";
    return true;
  }

  Bench& bench_;
  const TunerOptions& options_;
  Clock::time_point end_;
  tuning::KnobValues chosen_;
  Report report_;
};

}  // namespace

std::optional<Report> tune(Bench& bench, const TunerOptions& options, std::string& why) {
  Tuner tuner(bench, options);
  if (!tuner.run(why)) return std::nullopt;
  return std::move(tuner.report());
}

}  // namespace mesh::tune

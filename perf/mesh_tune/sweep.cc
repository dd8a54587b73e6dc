#include "perf/mesh_tune/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace mesh::tune {

double quantile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  const double last = static_cast<double>(values.size() - 1);
  const auto index = static_cast<std::size_t>(std::lround(std::clamp(share, 0.0, 1.0) * last));
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(index),
                   values.end());
  return values[index];
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

Comparison compare(std::span<const double> candidate, std::span<const double> reference) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < std::min(candidate.size(), reference.size()); ++i) {
    if (reference[i] > 0) ratios.push_back(candidate[i] / reference[i]);
  }
  if (ratios.empty()) return {};
  return {.ratio = median(ratios), .low = quantile(ratios, 0.25), .high = quantile(ratios, 0.75)};
}

Verdict judge(const Comparison& comparison, double noise) noexcept {
  // It is better only if even its worse quartile exceeds what noise alone can do.
  if (comparison.ratio < 1 - noise && comparison.high < 1) return Verdict::Better;
  if (comparison.ratio > 1 + noise && comparison.low > 1) return Verdict::Worse;
  return Verdict::Same;
}

namespace {

constexpr std::uint64_t kKiB = 1024;
constexpr std::uint64_t kMiB = 1024 * kKiB;

// Returns by how much two measurements of one setting differ: the quartile of the rounds that is
// farther off, and at least kNoiseMin.
double noise_of(std::span<const double> present, std::span<const double> repeated) {
  const Comparison same = compare(repeated, present);
  return std::max({kNoiseMin, same.high - 1, 1 - same.low, std::abs(same.ratio - 1)});
}

Candidate judge_candidate(const Stage& stage, const Trial& present, const Trial& repeated,
                          const Trial& other) {
  Candidate candidate{.value = other.value.value_or(0),
                      .points = judge_points(stage.points, present, repeated, other)};
  double logs = 0;
  for (const PointVerdict& each : candidate.points) {
    candidate.better_somewhere |= each.verdict == Verdict::Better;
    candidate.worse_somewhere |= each.verdict == Verdict::Worse;
    logs += std::log(each.comparison.ratio);
  }
  if (!candidate.points.empty())
    candidate.score = std::exp(logs / static_cast<double>(candidate.points.size()));
  return candidate;
}

// Names the point where the setting gains most, among those where it is better.
std::string reason(const Candidate& winner) {
  const PointVerdict* best = nullptr;
  for (const PointVerdict& each : winner.points) {
    if (each.verdict != Verdict::Better) continue;
    if (best == nullptr || each.comparison.ratio < best->comparison.ratio) best = &each;
  }
  if (best == nullptr) return {};
  return fmt::format("{:.1f} % faster at {} (noise {:.1f} %), slower nowhere",
                     100 * (1 - best->comparison.ratio), point_name(best->point),
                     100 * best->noise);
}

}  // namespace

const char* figure_name(Figure figure) noexcept {
  switch (figure) {
    case Figure::OneWay: return "one way";
    case Figure::Stream: return "8 in flight";
  }
  return "";
}

std::string point_name(const Point& point) {
  std::string size = fmt::format("{}", point.bytes);
  if (point.bytes >= kMiB && point.bytes % kMiB == 0) {
    size = fmt::format("{}M", point.bytes / kMiB);
  } else if (point.bytes >= kKiB && point.bytes % kKiB == 0) {
    size = fmt::format("{}K", point.bytes / kKiB);
  }
  return size + " " + figure_name(point.figure);
}

Plan plan_sweep(Effort effort) {
  constexpr Figure kOneWay = Figure::OneWay, kStream = Figure::Stream;
  Plan plan;
  plan.rounds = 9;
  plan.stages = {
      {tuning::Knob::Qps,
       {1, 2, 4, 8},
       {{256 * kKiB, kStream}, {kMiB, kStream}, {4 * kMiB, kStream}, {kMiB, kOneWay}}},
      {tuning::Knob::StripeBytes,
       {32 * kKiB, 64 * kKiB, 128 * kKiB, 256 * kKiB},
       {{128 * kKiB, kOneWay}, {512 * kKiB, kOneWay}, {256 * kKiB, kStream}, {kMiB, kStream}}},
      {tuning::Knob::WrBytes,
       {128 * kKiB, 256 * kKiB, 512 * kKiB, kMiB},
       {{kMiB, kStream}, {4 * kMiB, kStream}, {4 * kMiB, kOneWay}}},
      {tuning::Knob::ExpressBytes,
       {1 * kKiB, 4 * kKiB, 8 * kKiB, 32 * kKiB},
       {{2 * kKiB, kOneWay},
        {8 * kKiB, kOneWay},
        {32 * kKiB, kOneWay},
        {8 * kKiB, kStream},
        {32 * kKiB, kStream}}},
      {tuning::Knob::InlineBytes,
       {0, 64, 220, 512},
       {{8, kOneWay}, {128, kOneWay}, {384, kOneWay}, {128, kStream}}},
      {tuning::Knob::SignalInterval,
       {1, 4, 16, 64},
       {{8, kStream}, {4 * kKiB, kStream}, {64 * kKiB, kStream}}},
      {tuning::Knob::InflightBytes,
       {kMiB, 4 * kMiB, 16 * kMiB},
       {{256 * kKiB, kStream}, {4 * kMiB, kStream}}},
  };
  plan.final_points = {{8, kOneWay},         {8 * kKiB, kOneWay}, {64 * kKiB, kOneWay},
                       {kMiB, kOneWay},      {8, kStream},        {8 * kKiB, kStream},
                       {64 * kKiB, kStream}, {kMiB, kStream},     {4 * kMiB, kStream}};
  if (effort == Effort::Full) return plan;
  plan.rounds = 5;
  plan.stages.resize(3);
  plan.stages[0].values = {1, 2, 4};
  plan.stages[1].values = {64 * kKiB, 128 * kKiB};
  plan.stages[2].values = {256 * kKiB, 512 * kKiB};
  plan.final_points = {{8, kOneWay}, {64 * kKiB, kOneWay}, {64 * kKiB, kStream}, {kMiB, kStream}};
  return plan;
}

std::vector<PointVerdict> judge_points(std::span<const Point> points, const Trial& present,
                                       const Trial& repeated, const Trial& other) {
  std::vector<PointVerdict> verdicts;
  for (std::size_t i = 0; i < points.size(); ++i) {
    PointVerdict& each = verdicts.emplace_back();
    each.point = points[i];
    each.comparison = compare(other.times[i], present.times[i]);
    each.noise = noise_of(present.times[i], repeated.times[i]);
    each.verdict = judge(each.comparison, each.noise);
  }
  return verdicts;
}

Choice choose(const Stage& stage, const Trial& present, const Trial& repeated,
              std::span<const Trial> others) {
  Choice choice;
  bool some_better = false;
  for (const Trial& other : others) {
    const Candidate& candidate =
        choice.candidates.emplace_back(judge_candidate(stage, present, repeated, other));
    some_better |= candidate.better_somewhere;
    if (!candidate.better_somewhere || candidate.worse_somewhere) continue;
    if (!choice.winner || candidate.score < choice.candidates[*choice.winner].score)
      choice.winner = choice.candidates.size() - 1;
  }
  choice.why = choice.winner ? reason(choice.candidates[*choice.winner])
               : some_better ? "each that is faster somewhere is slower elsewhere"
                             : "none is faster by more than the noise";
  return choice;
}

}  // namespace mesh::tune

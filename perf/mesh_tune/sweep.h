#pragma once
// The plan: which settings are tried on which messages, and which of them win. One setting is tried
// after the other, and the next stage starts from the winner. The present setting is measured twice
// in every round, and the difference is the noise. Two settings are compared round by round.
// Thread: any (pure). Bound: the stages of the plan; linear in the runs.

#include "tuning/knob.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace mesh::tune {

double median(std::vector<double> values);                  // 0 for none
double quantile(std::vector<double> values, double share);  // the nearest value; 0 for none

// Times of the same rounds, so that what slowed a whole round down slows both.
struct Comparison {
  double ratio = 1;          // median of candidate / reference, round by round
  double low = 1, high = 1;  // its quartiles
};
Comparison compare(std::span<const double> candidate, std::span<const double> reference);

enum class Verdict { Better, Same, Worse };
// `noise` is the difference between two measurements of one setting; a gain must exceed that, and
// the spread of its own ratios.
Verdict judge(const Comparison& comparison, double noise) noexcept;

enum class Figure : std::uint8_t { OneWay, Stream };  // one message at a time; eight in flight
const char* figure_name(Figure figure) noexcept;      // "one way", "8 in flight"

struct Point {
  std::uint64_t bytes = 0;
  Figure figure = Figure::OneWay;
  bool operator==(const Point&) const = default;
};
std::string point_name(const Point& point);  // "64K one way"

struct Stage {
  tuning::Knob knob = tuning::Knob::Qps;
  std::vector<std::int64_t> values;
  std::vector<Point> points;  // where the knob can matter
};

enum class Effort : std::uint8_t { Quick, Full };
struct Plan {
  std::vector<Stage> stages;
  std::vector<Point> final_points;  // where the whole choice is compared with the defaults
  int rounds = 0;
};
Plan plan_sweep(Effort effort);

// The times of a message, in microseconds, of each point in each round.
struct Trial {
  std::optional<std::int64_t> value;  // none: the present setting
  std::vector<std::vector<double>> times;
};

struct PointVerdict {
  Point point;
  Comparison comparison;  // with the present setting
  double noise = 0;
  Verdict verdict = Verdict::Same;
};
struct Candidate {
  std::int64_t value = 0;
  std::vector<PointVerdict> points;
  double score = 1;  // geometric mean of the ratios
  bool better_somewhere = false, worse_somewhere = false;
};
struct Choice {
  std::vector<Candidate> candidates;
  std::optional<std::size_t> winner;  // of candidates; none: the present setting stays
  std::string why;
};

// A gain below this counts as none, however still the machine is.
inline constexpr double kNoiseMin = 0.02;

std::vector<PointVerdict> judge_points(std::span<const Point> points, const Trial& present,
                                       const Trial& repeated, const Trial& other);
// The winner is better on some point and worse on none; of several, it is the best on the whole.
Choice choose(const Stage& stage, const Trial& present, const Trial& repeated,
              std::span<const Trial> others);

}  // namespace mesh::tune

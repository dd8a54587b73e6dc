#pragma once
// Compares two settings that are measured in turns: by how much they differ, and whether that is
// more than the noise. Thread: any (pure). Bound: linear in the runs.

#include <span>
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

}  // namespace mesh::tune

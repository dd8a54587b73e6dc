#include "perf/mesh_tune/compare.h"

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

}  // namespace mesh::tune

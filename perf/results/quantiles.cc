#include "perf/results/result.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace mesh::results {

double quantile(const std::vector<double>& rising, double share) {
  const auto count = static_cast<double>(rising.size());
  // 0.99 * 100 is a little more than 99 in binary, which must not change the rank.
  const auto rank = static_cast<std::size_t>(std::max(1.0, std::ceil(share * count - 1e-9)));
  return rising[std::min(rank, rising.size()) - 1];
}

std::optional<Latency> latency_of(std::vector<double> samples_us) {
  if (samples_us.empty()) return std::nullopt;
  std::sort(samples_us.begin(), samples_us.end());
  const double sum = std::accumulate(samples_us.begin(), samples_us.end(), 0.0);
  return Latency{.min = samples_us.front(),
                 .median = quantile(samples_us, 0.5),
                 .p99 = quantile(samples_us, 0.99),
                 .p999 = quantile(samples_us, 0.999),
                 .samples = samples_us.size(),
                 .mean = sum / static_cast<double>(samples_us.size())};
}

}  // namespace mesh::results

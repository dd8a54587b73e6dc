#pragma once
// How long the empty writes took that are posted now and then on a path, from post to completion:
// counts by bucket, as Prometheus has them. Thread: whoever may use the object that it belongs to.
// Bound: fixed buckets; a sample allocates nothing.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>

namespace mesh {

struct LatencyHistogram {
  // The buckets' upper bounds in ns: 1, 2 and 5 us, and so on up to 1 s. One more bucket has what
  // is slower.
  static constexpr auto kBounds = [] {
    std::array<std::uint64_t, 19> bounds{};
    std::uint64_t decade = 1000;
    for (std::size_t i = 0; i < bounds.size(); ++i) {
      constexpr std::array<std::uint64_t, 3> kSteps{1, 2, 5};
      bounds[i] = decade * kSteps[i % kSteps.size()];
      if (i % kSteps.size() == kSteps.size() - 1) decade *= 10;
    }
    return bounds;
  }();

  std::array<std::uint64_t, kBounds.size() + 1> counts{};  // of each bucket alone
  std::uint64_t sum_ns = 0;

  void add(std::uint64_t ns) noexcept {
    const auto bound = std::lower_bound(kBounds.begin(), kBounds.end(), ns);
    ++counts[static_cast<std::size_t>(bound - kBounds.begin())];
    sum_ns += ns;
  }
  LatencyHistogram& operator+=(const LatencyHistogram& other) noexcept {
    for (std::size_t i = 0; i < counts.size(); ++i) counts[i] += other.counts[i];
    sum_ns += other.sum_ns;
    return *this;
  }
  // Returns the samples since an older state of the same histogram.
  LatencyHistogram since(const LatencyHistogram& older) const noexcept {
    LatencyHistogram more = *this;
    for (std::size_t i = 0; i < counts.size(); ++i) more.counts[i] -= older.counts[i];
    more.sum_ns -= older.sum_ns;
    return more;
  }
  std::uint64_t total() const noexcept {
    return std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
  }
  // Returns the time that this part of the samples does not exceed, such as 0.99; 0: there is no
  // sample. Interpolates within the bucket, as Prometheus' histogram_quantile() does.
  std::uint64_t quantile_ns(double part) const noexcept {
    const double rank = part * static_cast<double>(total());
    double below = 0;
    for (std::size_t i = 0; i < kBounds.size(); ++i) {
      const auto count = static_cast<double>(counts[i]);
      if (count != 0 && below + count >= rank) {
        const std::uint64_t from_ns = i == 0 ? 0 : kBounds[i - 1];
        const auto width_ns = static_cast<double>(kBounds[i] - from_ns);
        return from_ns + static_cast<std::uint64_t>(width_ns * (rank - below) / count);
      }
      below += count;
    }
    return total() == 0 ? 0 : kBounds.back();
  }
};

}  // namespace mesh

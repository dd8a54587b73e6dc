#pragma once
// The times of operations that follow one another: each begins as the last one ends, so the clock
// is read once for each. Thread: one owner.

#include <chrono>
#include <cstddef>
#include <vector>

namespace mesh::perf {

class Stopwatch {
 public:
  // Begins the first of so many operations. The samples of earlier ones are gone.
  void start(std::size_t count) {
    samples_us_.clear();
    samples_us_.reserve(count);
    begun_ = Clock::now();
  }
  // Ends one operation, and begins the next.
  void lap() {
    const Clock::time_point now = Clock::now();
    samples_us_.push_back(std::chrono::duration<double, std::micro>(now - begun_).count());
    begun_ = now;
  }
  const std::vector<double>& samples_us() const noexcept { return samples_us_; }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point begun_;
  std::vector<double> samples_us_;
};

}  // namespace mesh::perf

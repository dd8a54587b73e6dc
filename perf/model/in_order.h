#pragma once
// Runs pieces of work beside each other and takes their results in order. Each piece has a world of
// its own and nothing in common with other pieces, so its result does not depend on how many run at
// a time. Thread: one calls; `work` runs on threads of oneTBB, as many as there are processors to
// use, `take` on one at a time. Bound: kAhead pieces are begun before their predecessors are taken.

#include <tbb/parallel_pipeline.h>

#include <cstddef>
#include <utility>

namespace mesh::model {

inline constexpr std::size_t kAhead = 64;

// Calls take(i, work(i)) for every i below count, in this order, each as soon as it can be. Returns
// false once a take() has returned false; no other follows it.
template <typename Work, typename Take>
bool in_order(std::size_t count, const Work& work, const Take& take) {
  using Result = decltype(work(std::size_t{}));
  using Found = std::pair<std::size_t, Result>;
  std::size_t begun = 0;
  bool good = true;
  const auto next = [&](tbb::flow_control& flow) -> std::size_t {
    if (!good || begun == count) return flow.stop(), 0;
    return begun++;
  };
  tbb::parallel_pipeline(
      kAhead,
      tbb::make_filter<void, std::size_t>(tbb::filter_mode::serial_in_order, next) &
          tbb::make_filter<std::size_t, Found>(tbb::filter_mode::parallel,
                                               [&](std::size_t i) -> Found {
                                                 return {i, work(i)};
                                               }) &
          tbb::make_filter<Found, void>(tbb::filter_mode::serial_in_order, [&](const Found& found) {
            good = good && take(found.first, found.second);
          }));
  return good;
}

}  // namespace mesh::model

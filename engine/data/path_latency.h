#pragma once
// The latency of a path, measured with its timed write: an empty write that is posted while the
// path has traffic, one at a time (latency_watch.h). Its completion has a mark in its wr_id, so
// that no other completion pays for it. Thread: loop (progress lock). Bound: one write under way,
// fixed buckets.

#include <mesh/latency.h>

#include "src/base/clock.h"

#include <cstdint>
#include <utility>

namespace mesh::engine {

class PathLatency {
 public:
  void begin(const Clock& clock) noexcept {
    clock_ = clock;
    posted_ns_ = clock.now_ns();
    under_way_ = true;
  }
  bool under_way() const noexcept { return under_way_; }
  std::uint64_t posted_ns() const noexcept { return posted_ns_; }
  // The write has completed.
  void end() noexcept {
    if (!under_way_) return;
    under_way_ = false;
    histogram_.add(clock_.now_ns() - posted_ns_);
  }
  // The path is lost: what completes from here on says nothing of it.
  void give_up() noexcept { under_way_ = false; }

  const LatencyHistogram& histogram() const noexcept { return histogram_; }
  void leave_rails() noexcept { histogram_ = {}; }  // its owner has kept the counts

  // Returns true if the path has sent bytes of messages since the last call.
  bool had_traffic(std::uint64_t bytes_sent) noexcept {
    return std::exchange(bytes_seen_, bytes_sent) != bytes_sent;
  }

 private:
  Clock clock_;
  std::uint64_t posted_ns_ = 0, bytes_seen_ = 0;
  bool under_way_ = false;
  LatencyHistogram histogram_;
};

}  // namespace mesh::engine

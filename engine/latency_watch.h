#pragma once
// Measures the latency of the paths on which we send: up to ten times a second it posts an empty
// write on each path that has sent something since the last look, and the loop notes when that
// completes (path_latency.h). It looks for the completions itself for a while, because NCCL may
// have nothing to wait for and turn no loop. A path that is not up, or whose last write is still
// under way, gets none. Thread: control mutex; it takes a loop's progress lock for each link.
// Bounds: kTimedLinksAtOnce links a look, kTimedPostToNapNs of polling.

#include "engine/link/context.h"
#include "src/base/clock.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace mesh::engine {

class LatencyWatch {
 public:
  using Contexts = std::vector<std::unique_ptr<Context>>;

  // every_ns: from one look to the next.
  LatencyWatch(const Clock& clock, std::uint64_t every_ns) : clock_(clock), every_ns_(every_ns) {}

  // Called at every pass of the control path. Does nothing until due_ns(), or until its time after
  // the last look if that found no traffic.
  void look(const Contexts& contexts);
  // Returns when look() has something to do; UINT64_MAX: not before there is traffic.
  std::uint64_t due_ns() const noexcept { return busy_ ? next_ns_ : UINT64_MAX; }

 private:
  bool post();
  bool post_on(Link& link) const;
  std::uint64_t await(std::uint64_t until_ns) const;
  std::uint64_t poll(Link& link) const;

  const Clock clock_;
  const std::uint64_t every_ns_;
  std::vector<Link*> links_;     // on which we send, in this look
  std::size_t cursor_ = 0;       // where the next look begins, if there are too many for one
  std::size_t quiet_links_ = 0;  // looked at one after another, without traffic
  std::uint64_t post_ns_ = 0;    // when writes are posted next
  std::uint64_t next_ns_ = 0;    // when look() does something next
  bool busy_ = false;
};

}  // namespace mesh::engine

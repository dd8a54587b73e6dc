#pragma once
// The bulk queue pairs of a link's usable paths, in the order in which stripes go over them: paths
// first, then the queue pairs of a path. What is promised here is promised of each of them: one
// more stripe that is one work request. Thread: loop (token). Bound: kPathsMax paths of kQpsMax.

#include "engine/data/promise.h"
#include "src/base/check.h"

#include <cstdint>
#include <vector>

namespace mesh::engine {

class QueuePair;
struct Path;

class BulkOrder {
 public:
  std::uint32_t count() const noexcept { return count_; }
  QueuePair& at(std::uint32_t position) const noexcept {
    DCHECK(count_ != 0);
    return *order_[position < count_ ? position : position % count_];
  }
  // One after the other, from one of them on: as many as there are.
  QueuePair* const* from(std::uint32_t first) const noexcept {
    DCHECK(first < count_);
    return &order_[first];
  }
  // Where the next message begins.
  std::uint32_t next_first() const noexcept { return cursor_; }
  // Where a message of so many stripes, at most one for each, begins.
  std::uint32_t next(std::uint32_t stripes) noexcept {
    DCHECK(stripes <= count_);
    const std::uint32_t first = cursor_;
    DCHECK(first < count_);
    if (stripes == count_) return first;
    const std::uint32_t next = first + stripes;
    cursor_ = next < count_ ? next : next - count_;
    return first;
  }
  // May each of them be given a stripe of a uniform message? Then that must happen. Looked at once
  // for many messages.
  bool take_uniform() noexcept { return promise_.take() || promise_uniform(); }
  Promise& promise() noexcept { return promise_; }

  void assign(const std::vector<Path*>& usable);

 private:
  [[gnu::noinline]] bool promise_uniform() noexcept;

  std::vector<QueuePair*> order_;  // all of them, twice
  std::uint32_t count_ = 0;
  std::uint32_t cursor_ = 0;
  Promise promise_;
};

}  // namespace mesh::engine

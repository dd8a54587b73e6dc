#pragma once
// Lists the bulk queue pairs of a link's usable paths in the order in which stripes go over them:
// one of each path, then the next of each, as many of each as the path with the fewest has. On an
// acceptor, which sends no stripes, it is empty. The reservation made here covers all of them: each
// has room for one more stripe of one work request. Thread: loop (progress lock). Bound: kPathsMax
// paths of kQpsMax.

#include "engine/data/reservation.h"
#include "src/base/check.h"

#include <cstdint>
#include <vector>

namespace mesh::engine {

class SendQueuePair;
struct Path;

class BulkOrder {
 public:
  std::uint32_t count() const noexcept { return count_; }
  // Returns how many of each path are in the list.
  std::uint32_t each() const noexcept { return each_; }
  SendQueuePair& at(std::uint32_t position) const noexcept {
    DCHECK(count_ != 0);
    return *order_[position < count_ ? position : position % count_];
  }
  // Returns all of them as one row, from the first-th on: count() of them.
  SendQueuePair* const* from(std::uint32_t first) const noexcept {
    DCHECK(first < count_);
    return &order_[first];
  }
  // Returns the position at which the next message begins.
  std::uint32_t next_first() const noexcept { return cursor_; }
  // Returns where a message of at most count() stripes begins, and moves on behind it.
  std::uint32_t next(std::uint32_t stripes) noexcept {
    DCHECK(stripes <= count_);
    const std::uint32_t first = cursor_;
    DCHECK(first < count_);
    if (stripes == count_) return first;
    const std::uint32_t next = first + stripes;
    cursor_ = next < count_ ? next : next - count_;
    return first;
  }
  // Takes one from the reservation. Returns true if each of them may be given a stripe of a uniform
  // message; the caller must then do so. The queue pairs are looked at once for many messages.
  bool take_uniform() noexcept { return reservation_.take() || reserve_uniform(); }
  Reservation& reservation() noexcept { return reservation_; }

  void assign(const std::vector<Path*>& usable);

 private:
  [[gnu::noinline]] bool reserve_uniform() noexcept;

  std::vector<SendQueuePair*> order_;  // all of them, twice, so that from() never wraps
  std::uint32_t count_ = 0, each_ = 0;
  std::uint32_t cursor_ = 0;
  Reservation reservation_;
};

}  // namespace mesh::engine

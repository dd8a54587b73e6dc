#pragma once
// A reservation: how many work requests may be posted without another look at what they need, which
// is room in the send queue, in the peer's window and, for uniform stripes, in the chain. Whoever
// posts to a queue pair takes one from the reservation that covers it, even without having relied
// on it (SendRoom::post), and whatever takes room away withdraws it. So reserved room is always
// there. Thread: loop (progress lock). Bound: given in give().

#include "src/base/check.h"

#include <cstdint>

namespace mesh::engine {

class Reservation {
 public:
  // Takes one. Returns false if none is left, and somebody must look.
  bool take() noexcept { return --left_ >= 0; }
  void take(std::uint32_t posts) noexcept { left_ -= posts; }  // by a caller that has looked
  void put_back() noexcept { ++left_; }  // the one taken last, whose room is there
  void give(std::uint64_t posts) noexcept {
    DCHECK(posts <= INT32_MAX);
    left_ = static_cast<std::int64_t>(posts);
  }
  void withdraw() noexcept { left_ = 0; }
  bool covers(std::size_t posts) const noexcept {
    return left_ >= static_cast<std::int64_t>(posts);
  }
  std::uint64_t left() const noexcept { return left_ > 0 ? static_cast<std::uint64_t>(left_) : 0; }

 private:
  std::int64_t left_ = 0;
};

}  // namespace mesh::engine

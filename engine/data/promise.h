#pragma once
// How many work requests may be posted without another look at what they need: room in the send
// queue, in the peer's window, of uniform stripes also in the chain. Whoever posts to a queue pair
// takes one from the promise that covers it, whether the post was promised or not (SendRoom::post),
// and whatever takes room away withdraws it. So what is promised is there. Thread: loop (token).
// Bound: given in give().

#include "src/base/check.h"

#include <cstdint>

namespace mesh::engine {

class Promise {
 public:
  // False: nothing is left, and somebody must look.
  bool take() noexcept { return --left_ >= 0; }
  void take(std::uint32_t posts) noexcept { left_ -= posts; }  // likewise, of whoever looked
  void put_back() noexcept { ++left_; }                        // what was taken last, and is there
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

#pragma once
// Counts what a queue pair has posted, what of it is done, and how much more it may post: work
// requests up to its send queue's depth, announcements up to the peer's posted receives (receive
// credits). A reservation of this room holds by construction: post(), post_many() and post_taken()
// use room that was taken from the reservation; post_probe() and close() withdraw it.
// Thread: loop (progress lock). Bounds: sq_depth work requests, rq_depth announcements.

#include "engine/message/wire.h"
#include "src/base/check.h"

#include <algorithm>
#include <cstdint>

namespace mesh::engine {

// A reservation: how many work requests may be posted without another look at what they need, which
// is room in the send queue, in the peer's window and, for uniform stripes, in the chain. Whoever
// posts to a queue pair takes one from the reservation that covers it, even without having relied
// on it (SendRoom::post), and whatever takes room away withdraws it. So reserved room is always
// there. Thread: loop (progress lock). Bound: given in give().
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

class SendRoom {
 public:
  static constexpr std::uint32_t kProbes = 2;  // of a new path: small and full packets
  struct Depths {
    std::uint32_t send = 0;
    std::uint32_t window = 0;  // the peer's posted receives
  };
  // reservation: covers this queue pair, alone or with others.
  SendRoom(const Depths& depths, Reservation& reservation)
      : sq_depth_(depths.send),
        rq_depth_(depths.window),
        reservation_(reservation),
        depth_(depths.send),
        window_end_(depths.window) {}

  bool has(std::uint32_t count) const noexcept {
    DCHECK(retired_ <= posted_);
    return posted_ + count - retired_ <= depth_;
  }
  std::uint64_t left() const noexcept {
    DCHECK(retired_ <= posted_);
    const std::uint64_t taken = posted_ - retired_;
    return taken < depth_ ? depth_ - taken : 0;
  }
  bool window_open() noexcept { return announced_ != window_end_ || read_window(); }
  std::uint64_t window_left() const noexcept { return window_end_ - announced_; }
  [[gnu::noinline]] bool read_window() noexcept;  // (queue_pair.cc)

  // Counts one work request more. Returns how many there were before it.
  std::uint64_t post() noexcept {
    reservation_.take();
    return post_taken();
  }
  // Counts one that its poster has taken from the reservation.
  std::uint64_t post_taken() noexcept {
    DCHECK(has(1));
    DCHECK(reservation_.left() < left());
    return posted_++;
  }
  // Counts this many work requests more.
  void post_many(std::uint32_t count) noexcept {
    DCHECK(has(count));
    reservation_.take(count);
    posted_ += count;
  }
  // Counts the last work request as an announcement too.
  void announce() noexcept {
    DCHECK(announced_ < window_end_);
    ++announced_;
  }
  // Counts a probe of a closed or new queue pair: nothing but probes is under way.
  void post_probe() noexcept {
    DCHECK(outstanding() < kProbes);
    reservation_.withdraw();
    ++posted_;
  }

  std::uint64_t posted() const noexcept { return posted_; }
  std::uint64_t retired() const noexcept { return retired_; }
  std::uint64_t announced() const noexcept { return announced_; }
  std::uint64_t outstanding() const noexcept {
    DCHECK(retired_ <= posted_);
    return posted_ - retired_;
  }
  void retire_through(std::uint64_t limit) noexcept {
    DCHECK(retired_ <= limit && limit <= posted_);
    retired_ = limit;
  }

  // Ends posting: nothing has room any more.
  void close() noexcept {
    depth_ = 0;
    reservation_.withdraw();
  }
  bool closed() const noexcept { return depth_ == 0; }
  void open() noexcept {
    DCHECK(depth_ == 0 && outstanding() == 0);
    depth_ = sq_depth_;
  }
  // Begins anew for another verbs queue pair; closed until open().
  void renew() noexcept {
    DCHECK(outstanding() == 0);
    posted_ = retired_ = announced_ = 0;
    window_end_ = rq_depth_;
    close();
  }
  void set_window_words(std::uint64_t* words) noexcept { window_words_ = words; }

 private:
  const std::uint32_t sq_depth_, rq_depth_;
  Reservation& reservation_;
  std::uint64_t posted_ = 0, retired_ = 0;  // work requests, staged ones included
  std::uint32_t depth_;                     // how far posted_ may be ahead of retired_
  std::uint64_t announced_ = 0;
  std::uint64_t window_end_;  // announced_ may grow to here
  std::uint64_t* window_words_ = nullptr;
};

}  // namespace mesh::engine

#pragma once
// The receives that a queue pair has posted for the peer's announcements. They are posted again by
// quarters: the peer has three quarters to go on with while it learns of one. Thread: loop
// (progress lock). Bound: its depth.

#include <mesh/status.h>

#include "src/base/check.h"

#include <infiniband/verbs.h>

#include <cstdint>
#include <vector>

namespace mesh::engine {

inline constexpr std::uint32_t kWindowShares = 4;

class ReceiveQueue {
 public:
  explicit ReceiveQueue(std::uint32_t depth);  // a multiple of kWindowShares

  // Counts announcements taken from the queue. Returns true if a quarter is to be posted again.
  bool take(std::uint32_t count) noexcept {
    DCHECK(taken() + flushed_ + count <= posted_);
    to_return_ -= count;
    return to_return_ < 0;
  }
  std::uint64_t taken() const noexcept {
    return return_at_ - 1 - static_cast<std::uint64_t>(to_return_);
  }
  void on_flushed() noexcept {  // a receive has ended without an announcement
    ++flushed_;
    DCHECK(taken() + flushed_ <= posted_);
  }
  // Returns true if every receive of a stopped queue pair has been polled.
  bool drained() const noexcept { return taken() + flushed_ == posted_; }

  std::uint32_t depth() const noexcept { return depth_; }
  bool quarter_due() const noexcept { return to_return_ < 0; }
  std::uint32_t quarter() const noexcept { return depth_ / kWindowShares; }
  // The quarters ever posted again.
  std::uint64_t quarters_returned() const noexcept {
    DCHECK(posted_ >= depth_);
    return (posted_ - depth_) / quarter();
  }
  Status return_quarter(ibv_qp* qp) noexcept;  // afterwards the next one may be due

  Status fill(ibv_qp* qp) noexcept;       // in state INIT or later
  void begin(std::uint64_t id) noexcept;  // for a new verbs queue pair, with the id of receives
  void end() noexcept;                    // no quarter is due any more
  void renew() noexcept;

 private:
  Status post_quarter(ibv_qp* qp) noexcept;
  void set_return_at(std::uint64_t taken) noexcept {
    to_return_ = static_cast<std::int64_t>(static_cast<std::uint64_t>(to_return_) +
                                           (taken - return_at_));  // wraps: a difference
    return_at_ = taken;
  }

  const std::uint32_t depth_;
  std::uint64_t posted_ = 0;          // receives ever posted
  std::uint64_t flushed_ = 0;         // receives that ended without an announcement
  std::uint64_t return_at_ = 0;       // announcements taken at which a quarter is posted again
  std::int64_t to_return_ = -1;       // below 0 from there on; it is what counts those taken
  std::vector<ibv_recv_wr> quarter_;  // a chain of a quarter's receives, posted again and again
};

}  // namespace mesh::engine

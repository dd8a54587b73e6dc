#include "engine/data/recv_queue_pair.h"

#include "engine/data/progress_loop_datapath.h"
#include "src/base/check.h"

#include <algorithm>
#include <cerrno>
#include <utility>

namespace mesh::engine {

void RecvQueuePair::adopt(verbs::QpHandle qp, std::uint64_t id_base, const InlineBytes& granted) {
  QueuePair::adopt(std::move(qp), id_base, granted);
  single_.wr().opcode = IBV_WR_RDMA_WRITE;
  single_.wr().wr_id = id_base_;
  single_.wr().send_flags = IBV_SEND_INLINE;
  single_.gather().addr = reinterpret_cast<std::uint64_t>(single_.row());
  rows_.set_up(granted.rows / kCreditHalfBytes * kCreditHalfBytes, id_base_);
}

void RecvQueuePair::renew() noexcept {
  window_round_end_ = 0;
  QueuePair::renew();
}

// Gives a new reservation and takes one of it. Nobody waits for an entry: its completion only makes
// room, so ring() signals one in a quarter queue. That one is not reserved, but taken alone.
bool RecvQueuePair::reserve_cts() noexcept {
  DCHECK(loop_.held());
  DCHECK(counted_ == 0);
  DCHECK(signaled_ <= room_.posted());
  reservation_.withdraw();
  const std::uint64_t silent = room_.posted() - signaled_ + 1;
  const std::uint64_t more = silent < row_interval_ ? row_interval_ - silent : 1;
  reservation_.give(std::min(room_.left(), more));
  return reservation_.take();
}

void RecvQueuePair::post_rows_signaled(const verbs::RemoteTarget& target) noexcept {
  if (refused_) return;
  signaled_ = room_.posted();
  signal_next_ = false;
  ++doorbells_;
  const std::uint64_t wr_id = id_base_ | static_cast<std::uint32_t>(signaled_);
  if (const int error = rows_.post_signaled(qp_.get(), target, wr_id); error != 0) refuse(error);
}

bool RecvQueuePair::return_window() noexcept {
  DCHECK(loop_.held());
  DCHECK(window_due);
  while (receives_.quarter_due()) {
    // A word is written again only when its last round has landed: an older value never lies on a
    // newer one, in whatever order they arrive.
    const std::uint64_t word = (receives_.quarters_returned() + 1) % kWindowWords;
    if (!has_room(1) || (word == 0 && retired() < window_round_end_)) return false;
    if (!receives_.return_quarter(qp_.get()).ok()) {
      refuse(ENOMEM);
      window_due = false;
      return true;
    }
    // The receives that the peer may count on: those posted beyond the first filling.
    const std::uint64_t returned = receives_.quarters_returned() * receives_.quarter();
    DCHECK(returned <= receives_.taken());
    *stage_row(sizeof returned, {.address = peer_window_.address + word * sizeof returned,
                                 .rkey = peer_window_.rkey}) = returned;
    if (word == kWindowWords - 1) {
      window_round_end_ = posted();
      signal_next_doorbell();
    }
  }
  window_due = false;
  return true;
}

}  // namespace mesh::engine

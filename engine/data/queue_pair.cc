#include "engine/data/queue_pair.h"

#include "engine/data/progress_loop_datapath.h"
#include "src/base/check.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>

namespace mesh::engine {

namespace {
// A window returns by quarters: the peer has three quarters to go on with while the word travels.
constexpr std::uint32_t kWindowShares = 4;
}  // namespace

QueuePair::QueuePair(const TransferPolicy& policy, const QueuePairPlace& place)
    : place_(place),
      loop_(place.link->loop()),
      sq_depth_(policy.sq_depth),
      rq_depth_(policy.rq_depth),
      signal_interval_(policy.signal_interval),
      row_interval_(policy.sq_depth / kWindowShares),
      ring_mask_(policy.sq_depth - 1),
      counted_(place.index == 0 ? 0 : UINT32_MAX),
      rows_only_(place.link->identity().role == LinkRole::Acceptor),
      room_(policy, place.index == 0 ? promise_ : place.link->paths().bulk().promise()),
      ring_(policy.sq_depth),
      parts_(policy.sq_depth),
      receives_(policy.rq_depth / kWindowShares) {
  DCHECK(std::has_single_bit(sq_depth_));
  DCHECK(rq_depth_ % kWindowShares == 0 && rq_depth_ >= kWindowShares);
  DCHECK(signal_interval_ != 0 && signal_interval_ <= sq_depth_);
  DCHECK(row_interval_ != 0);
}

void QueuePair::adopt(verbs::QpHandle qp, std::uint64_t id_base, const InlineBytes& granted) {
  DCHECK(qp && !qp_);
  DCHECK(low_of(id_base) == 0 && (id_base & kReceiveBit) == 0);
  DCHECK(granted.rows >= kCreditHalfBytes);
  DCHECK(room_.posted() == 0 && room_.announced() == 0 && reposted_ == 0);
  qp_ = std::move(qp);
  id_base_ = id_base;
  inline_bytes_ = granted.data;
  row_bytes_max_ = granted.rows;
  return_at_ = rq_depth_ / kWindowShares;
  to_return_ = static_cast<std::int64_t>(return_at_) - 1;
  chain_.set_silent_id(id_base_);
  chain_.set_interval(signal_interval_);
  message_.wr().opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  row_.wr().opcode = IBV_WR_RDMA_WRITE;
  row_.wr().wr_id = id_base_;
  row_.wr().send_flags = IBV_SEND_INLINE;
  rows_.set_up(granted.rows / kCreditHalfBytes * kCreditHalfBytes, id_base_);
  row_.gather().addr = reinterpret_cast<std::uint64_t>(row_.row());
  for (std::size_t i = 0; i < receives_.size(); ++i) {
    receives_[i] = {};
    receives_[i].wr_id = id_base_ | kReceiveBit;
    receives_[i].next = i + 1 < receives_.size() ? &receives_[i + 1] : nullptr;
  }
}

bool SendRoom::read_window() noexcept {
  DCHECK(window_words_ != nullptr);
  // The count only moves forward, an older one landing late is ignored.
  const std::uint64_t end = read_window_words(window_words_) + rq_depth_;
  if (static_cast<std::int64_t>(end - window_end_) > 0) window_end_ = end;
  DCHECK(announced_ <= window_end_);
  return announced_ != window_end_;
}

// Gives a new promise and takes one of it. Returns false if there is no room.
bool QueuePair::promise_small() noexcept {
  DCHECK(loop_.held());
  DCHECK(counted_ == 0);
  promise_.withdraw();
  if (!room_.window_open()) return false;
  promise_.give(std::min(room_.left(), room_.window_left()));
  return promise_.take();
}

// Gives a new promise and takes one of it. Nobody waits for a row: its completion only makes room,
// so ring() signals one in a quarter queue. That one is not promised, but taken alone.
bool QueuePair::promise_rows() noexcept {
  DCHECK(loop_.held());
  DCHECK(rows_only_ && counted_ == 0);
  DCHECK(signaled_ <= room_.posted());
  promise_.withdraw();
  const std::uint64_t silent = room_.posted() - signaled_ + 1;
  const std::uint64_t more = silent < row_interval_ ? row_interval_ - silent : 1;
  promise_.give(std::min(room_.left(), more));
  return promise_.take();
}

void QueuePair::empty_chain() noexcept {
  ring();
  loop_.unstage(*this);
}

std::uint32_t QueuePair::stripes_left() noexcept {
  DCHECK(counted_ != 0);
  make_chain_room(1);
  if (!room_.read_window()) return 0;
  return static_cast<std::uint32_t>(
      std::min({room_.left(), room_.window_left(), std::uint64_t{chain_.left()}}));
}

void QueuePair::signal_between() noexcept {
  const std::uint32_t staged = chain_.staged();
  for (std::uint32_t i = signal_interval_; i < staged; i += signal_interval_)
    chain_.signal(i - 1, id_base_ | static_cast<std::uint32_t>(room_.posted() - staged + i));
}

void QueuePair::retire_part(std::uint64_t at) noexcept {
  const Mark mark = ring_[at & ring_mask_];
  Request& request = *mark.request();
  if ((mark.word & Mark::kTags) != 0) return finish_shared(request);
  const PostedPart& part = parts_[at & ring_mask_];
  DCHECK(part.counted_bytes <= place_.path->inflight_bytes());
  DCHECK(request.channel->outstanding != 0);
  place_.path->bulk_done += part.counted_bytes;
  --request.channel->outstanding;
  if (part.ends != Ends::Nothing) finish_stripe(request);
}

bool QueuePair::ring_full() noexcept {
  ring();
  return true;
}

// Notes the failure for the end of the turn: staging may be in the middle of a channel's work.
void QueuePair::refuse(int error) noexcept {
  refused_ = true;
  loop_.add_refused({.queue_pair = this, .error = error});
}

void QueuePair::add_to(PathCounters* counters) const noexcept {
  counters->bytes_sent += bytes_posted_;
  counters->work_requests += room_.posted();
  counters->doorbells += doorbells_;
  counters->send_completions += completions_;
  counters->announcements += announcements_taken();
}

void QueuePair::drop_outstanding() noexcept {
  DCHECK(loop_.held());
  DCHECK(!qp_);
  for (std::uint64_t at = room_.retired(); at != room_.posted(); ++at) {
    const Mark mark = ring_[at & ring_mask_];
    if (mark.is_row()) continue;
    Request& request = *mark.request();
    DCHECK(request.channel->outstanding != 0);
    DCHECK(!mark.is_uniform() || request.open_stripes != 0);
    if (!mark.is_uniform() || --request.open_stripes == 0) --request.channel->outstanding;
  }
  room_.retire_through(room_.posted());
  room_.close();  // nobody posts to it any more
}

Status QueuePair::post_receives(std::uint32_t count) noexcept {
  DCHECK(count != 0 && count <= receives_.size());
  DCHECK(reposted_ - announcements_taken() - flushed_ + count <= rq_depth_);
  receives_[count - 1].next = nullptr;
  ibv_recv_wr* bad = nullptr;
  const int error = ibv_post_recv(qp_.get(), receives_.data(), &bad);
  receives_[count - 1].next = count < receives_.size() ? &receives_[count] : nullptr;
  if (error == 0) reposted_ += count;
  return error == 0 ? Status{} : Status{Errc::Transport};
}

Status QueuePair::fill_receive_queue() noexcept {
  DCHECK(reposted_ == 0);
  for (std::uint32_t i = 0; i < kWindowShares; ++i) {
    if (const Status status = post_receives(rq_depth_ / kWindowShares); !status.ok()) return status;
  }
  return {};
}

void QueuePair::ask_for_return() noexcept { loop_.add_window_due(*this); }

bool QueuePair::return_window() noexcept {
  DCHECK(loop_.held());
  DCHECK(window_due);
  const std::uint32_t quarter = rq_depth_ / kWindowShares;
  while (to_return_ < 0) {
    // A word is written again only when its last round has landed: an older value never lies on a
    // newer one, in whatever order they arrive.
    const std::uint64_t word = (reposted_ + quarter - rq_depth_) / quarter % kWindowWords;
    if (!has_room(1) || (word == 0 && retired() < window_round_end_)) return false;
    if (!post_receives(quarter).ok()) {
      refuse(ENOMEM);
      window_due = false;
      return true;
    }
    // The receives that the peer may count on: those posted beyond the first filling.
    DCHECK(reposted_ >= rq_depth_);
    const std::uint64_t returned = reposted_ - rq_depth_;
    DCHECK(returned <= announcements_taken());
    *stage_row(sizeof returned, {.address = peer_window_.address + word * sizeof returned,
                                 .rkey = peer_window_.rkey}) = returned;
    if (word == kWindowWords - 1) {
      window_round_end_ = posted();
      signal_next_doorbell();
    }
    set_return_at(returned + quarter);
  }
  window_due = false;
  return true;
}

bool QueuePair::carries(const Request& request) const noexcept {
  for (std::uint64_t at = room_.retired(); at != room_.posted(); ++at) {
    if (ring_[at & ring_mask_].request() == &request) return true;
  }
  return false;
}

}  // namespace mesh::engine

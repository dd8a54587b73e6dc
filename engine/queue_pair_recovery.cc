// What becomes of a queue pair's work when its path is lost. Announcements of one queue pair arrive in the order in which they
// were posted, so the receiver's count of them tells exactly which stripes it has and which it will never see.
#include "engine/queue_pair.h"

#include "engine/turn.h"

namespace mesh::engine {

void QueuePair::quarantine() noexcept {
  refused_ = true;  // what is staged goes nowhere
  room_ = 0;
  budget_ = 0;
  set_return_at(announcements_taken() + INT64_MAX);  // never
}

void QueuePair::retire(const Posted& entry) noexcept {
  if (entry.mark == 0) return;
  if (entry.is_part()) return retire_part(entry);
  Request& request = *entry.request();
  --request.channel->outstanding;
  request.complete_whole();
}

StripeSpan QueuePair::span_of(const Posted& entry, std::uint64_t at) const noexcept {
  if (entry.whole()) return {.offset = 0, .bytes = entry.request()->bytes};
  if (entry.ends == kEndsLongStripe) return spans_[at & ring_mask_];
  return {.offset = marked_offset(entry.ends), .bytes = entry.counted_bytes};
}

std::uint64_t QueuePair::open_announcements() const noexcept {
  std::uint64_t open = 0;
  for (std::uint64_t at = retired_; at != posted_; ++at) {
    if (ring_[at & ring_mask_].announces()) ++open;
  }
  return open;
}

bool QueuePair::may_have_taken(std::uint64_t taken) const noexcept {
  return taken >= announced_ - open_announcements() && taken <= announced_;
}

void QueuePair::settle(std::uint64_t taken, std::vector<LostStripe>* lost) {
  std::uint64_t landed = taken - (announced_ - open_announcements());
  for (; retired_ != posted_; ++retired_) {
    const Posted& entry = ring_[retired_ & ring_mask_];
    const bool announces = entry.announces();
    if (landed == 0 && announces) {
      // Stays counted in its channel's outstanding, and its stripe open, until another queue pair has carried it.
      if (entry.is_part()) place_.path->bulk_done += entry.counted_bytes;
      lost->push_back({.request = entry.request(), .span = span_of(entry, retired_), .whole_message = entry.whole()});
      continue;
    }
    retire(entry);
    if (announces) --landed;
  }
}

void QueuePair::renew() noexcept {
  chain_.clear();
  chain_has_data_ = started_ = false;
  posted_ = retired_ = announced_ = reposted_ = flushed_ = signaled_ = 0;
  return_at_ = 0;
  to_return_ = -1;
  bytes_posted_ = doorbells_ = completions_ = 0;
  window_end_ = rq_depth_;
  quarantine();
}

void QueuePair::open() noexcept {
  refused_ = false;
  room_ = sq_depth_;
}

bool QueuePair::post_probe() noexcept {
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_RDMA_WRITE;
  wr.send_flags = IBV_SEND_SIGNALED;
  ring_[posted_++ & ring_mask_].mark = 0;
  --budget_;
  wr.wr_id = id_base_ | static_cast<std::uint32_t>(posted_);
  signaled_ = posted_;
  ++doorbells_;
  ibv_send_wr* bad = nullptr;
  return ibv_post_send(qp_.get(), &wr, &bad) == 0;
}

}  // namespace mesh::engine

// What becomes of a queue pair's work when its path is lost. Announcements of one queue pair arrive
// in the order in which they were posted, so the receiver's count of them tells exactly which
// stripes it has and which it will never see.
#include "engine/data/queue_pair.h"

#include "engine/data/progress_loop_datapath.h"
#include "src/base/check.h"

namespace mesh::engine {

void QueuePair::quarantine() noexcept {
  DCHECK(loop_.held());
  refused_ = true;  // what is staged goes nowhere
  room_ = 0;
  budget_ = 0;
  place_.link->forget_uniform_grant();
  set_return_at(announcements_taken() + INT64_MAX);  // never
}

void QueuePair::retire(std::uint64_t at) noexcept {
  const Mark mark = ring_[at & ring_mask_];
  if (mark.is_row()) return;
  Request& request = *mark.request();
  if (mark.is_even()) return finish_stripe(request);
  if (!mark.is_whole()) return retire_part(at);
  DCHECK(request.channel->outstanding != 0);
  --request.channel->outstanding;
  request.complete_whole();
}

const QueuePair::Part* QueuePair::part_at(std::uint64_t at) const noexcept {
  return ring_[at & ring_mask_].is_part() ? &parts_[at & ring_mask_] : nullptr;
}

bool QueuePair::whole_at(std::uint64_t at) const noexcept {
  const Mark mark = ring_[at & ring_mask_];
  const Part* const part = part_at(at);
  return part != nullptr ? part->ends == Ends::Message : mark.is_whole();
}

bool QueuePair::announces_at(std::uint64_t at) const noexcept {
  const Part* const part = part_at(at);
  return part != nullptr ? part->ends != Ends::Nothing : !ring_[at & ring_mask_].is_row();
}

StripeSpan QueuePair::span_at(std::uint64_t at) const noexcept {
  const Mark mark = ring_[at & ring_mask_];
  if (whole_at(at)) return {.offset = 0, .bytes = mark.request()->bytes};
  if (mark.is_part()) return parts_[at & ring_mask_].stripe;
  const TransferPolicy& policy = place_.link->policy();
  const StripePlan plan = plan_stripes(mark.request()->bytes, policy,
                                       policy.qps);  // uniform messages go over the only path
  return {.offset = plan.offset(mark.number()), .bytes = plan.bytes(mark.number())};
}

// A stripe of a uniform message is lost: its bytes are in flight no more, and every lost stripe is
// outstanding by itself. The first one takes the message's place.
void QueuePair::count_apart(Request& request) noexcept {
  if (!request.uniform) {
    ++request.channel->outstanding;
    return;
  }
  request.uniform = false;
  DCHECK(request.bytes <= place_.path->inflight_bytes());
  place_.path->bulk_done += request.bytes;
}

std::uint64_t QueuePair::open_announcements() const noexcept {
  DCHECK(retired_ <= posted_);
  std::uint64_t open = 0;
  for (std::uint64_t at = retired_; at != posted_; ++at) {
    if (announces_at(at)) ++open;
  }
  return open;
}

bool QueuePair::may_have_taken(std::uint64_t taken) const noexcept {
  return taken >= announced_ - open_announcements() && taken <= announced_;
}

void QueuePair::settle(std::uint64_t taken, std::vector<LostStripe>* lost) {
  DCHECK(loop_.held());
  DCHECK(refused_);
  DCHECK(may_have_taken(taken));
  std::uint64_t landed = taken - (announced_ - open_announcements());
  for (; retired_ != posted_; ++retired_) {
    const bool announces = announces_at(retired_);
    if (landed == 0 && announces) {
      // Stays counted in its channel's outstanding, and its stripe open, until another queue pair
      // has carried it.
      Request& request = *ring_[retired_ & ring_mask_].request();
      if (ring_[retired_ & ring_mask_].is_even()) count_apart(request);
      if (const Part* const part = part_at(retired_)) place_.path->bulk_done += part->counted_bytes;
      lost->push_back(
          {.request = &request, .span = span_at(retired_), .whole_message = whole_at(retired_)});
      continue;
    }
    retire(retired_);
    if (announces) --landed;
  }
  DCHECK(landed == 0);
}

void QueuePair::renew() noexcept {
  DCHECK(!qp_);
  DCHECK(outstanding() == 0);
  DCHECK(!in_staged_list && !window_due);
  chain_.clear();
  signal_next_ = started_ = false;
  posted_ = retired_ = announced_ = reposted_ = flushed_ = signaled_ = 0;
  return_at_ = 0;
  to_return_ = -1;
  bytes_posted_ = doorbells_ = completions_ = 0;
  window_end_ = rq_depth_;
  quarantine();
}

void QueuePair::open() noexcept {
  DCHECK(loop_.held());
  DCHECK(refused_ && room_ == 0);
  DCHECK(qp_ && started_);
  DCHECK(outstanding() == 0);
  refused_ = false;
  room_ = sq_depth_;
}

bool QueuePair::post_probe() noexcept {
  DCHECK(loop_.held());
  DCHECK(room_ == 0 && outstanding() == 0);
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_RDMA_WRITE;
  wr.send_flags = IBV_SEND_SIGNALED;
  ring_[posted_++ & ring_mask_] = {};
  --budget_;
  wr.wr_id = id_base_ | static_cast<std::uint32_t>(posted_);
  signaled_ = posted_;
  ++doorbells_;
  ibv_send_wr* bad = nullptr;
  return ibv_post_send(qp_.get(), &wr, &bad) == 0;
}

}  // namespace mesh::engine

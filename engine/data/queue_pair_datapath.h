#pragma once
// The message path of queue pairs: they put work requests into their chain or straight to the
// device, ring doorbells, and hand completed work requests back to their requests. Thread: loop
// (progress lock). Bounds: those of queue_pair.h.

#include "engine/data/peer_link.h"
#include "engine/data/progress_loop.h"
#include "engine/data/queue_pair.h"
#include "engine/data/recv_queue_pair.h"
#include "engine/data/send_queue_pair.h"
#include "src/base/check.h"

#include <cstdint>

namespace mesh::engine {

inline void QueuePair::note(std::uint64_t at, Mark mark) noexcept {
  if (!in_staged_list) loop_.add_staged(*this);
  ring_[at & ring_mask_] = mark;
}

inline void QueuePair::ring_if_full() noexcept {
  if (chain_.full()) [[unlikely]]
    ring_full();
}

inline void SendQueuePair::stage_small(const Small& message) noexcept {
  DCHECK(loop_.held());
  DCHECK(message.source.bytes != 0);
  DCHECK(!chain_.full());
  bytes_posted_ += message.source.bytes;
  DCHECK(message.inline_bytes <= inline_bytes_);
  verbs::WrChain::announce(chain_.write(message.source, message.target, message.inline_bytes),
                           message.imm);
  room_.announce();
  note(room_.post_taken(), Mark::of(*message.request, Mark::kWhole));
}

inline void SendQueuePair::stage_uniform(const Uniform& stripe) noexcept {
  DCHECK(counted_ != 0);
  DCHECK(!chain_.full());
  DCHECK(stripe.source.bytes != 0);
  chain_.write_announced(stripe.source, stripe.target, stripe.imm);
  room_.announce();
  note(room_.post_taken(), Mark{stripe.mark});
}

inline void SendQueuePair::stage_rest(const Uniform& stripe, const StripeSpan& span) noexcept {
  parts_[room_.posted() & ring_mask_] = {
      .counted_bytes = stripe.source.bytes, .ends = Ends::Stripe, .stripe = span};
  stage_uniform(stripe);
}

inline void SendQueuePair::stage_apart(const Uniform& stripe) noexcept {
  DCHECK(counted_ != 0);
  DCHECK(stripe.source.bytes != 0);
  chain_.write(stripe.source, stripe.target, 0);
  note(room_.post(), {});
}

inline void SendQueuePair::stage_announcement(const Uniform& stripe) noexcept {
  DCHECK(counted_ != 0);
  DCHECK(Mark{stripe.mark}.is_uniform());
  chain_.write_announcement(stripe.target, stripe.imm);
  const std::uint64_t at = room_.post();
  room_.announce();
  note(at, Mark{stripe.mark});
}

inline void SendQueuePair::stage_part(const Part& part) noexcept {
  DCHECK(loop_.held());
  DCHECK(part.request->channel->outstanding != 0);
  DCHECK(part.source.bytes <= place_.link->policy().wr_bytes);
  ring_if_full();
  DCHECK(part.inline_bytes <= inline_bytes_);
  ibv_send_wr& wr = chain_.write(part.source, part.target, part.inline_bytes);
  if (part.source.bytes == 0) [[unlikely]]
    wr.num_sge = 0;
  if (part.ends != Ends::Nothing) {
    verbs::WrChain::announce(wr, part.request->imm());
    room_.announce();
  }
  const std::uint32_t counted = part.source.bytes & counted_;
  bytes_posted_ += part.source.bytes - counted;
  place_.path->bulk_posted += counted;
  const std::uint64_t at = room_.post();
  parts_[at & ring_mask_] = {.counted_bytes = counted, .ends = part.ends, .stripe = part.stripe};
  note(at, Mark::of(*part.request, 0));
}

inline std::uint64_t* RecvQueuePair::stage_credits(std::uint32_t bytes,
                                                   const verbs::RemoteTarget& target) noexcept {
  DCHECK(loop_.held());
  DCHECK(bytes != 0 && bytes <= cts_bytes_max_ && bytes % sizeof(std::uint64_t) == 0);
  DCHECK(counted_ == 0);
  ring_if_full();
  note(room_.post_taken(), {});
  return chain_.write_next_row(bytes, target);
}

inline std::uint64_t* QueuePair::stage_row(std::uint32_t bytes,
                                           const verbs::RemoteTarget& target) noexcept {
  DCHECK(loop_.held());
  DCHECK(bytes != 0 && bytes <= cts_bytes_max_ && bytes % sizeof(std::uint64_t) == 0);
  ring_if_full();
  note(room_.post(), {});
  return chain_.write_row(bytes, target);
}

inline bool SendQueuePair::post_small(const Small& message) noexcept {
  DCHECK(loop_.held());
  DCHECK(!in_staged_list && chain_.staged() == 0);
  ibv_send_wr& wr = single_.wr();
  single_.gather() = {
      .addr = message.source.address, .length = message.source.bytes, .lkey = message.source.lkey};
  DCHECK(message.inline_bytes <= inline_bytes_);
  wr.send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE;
  if (message.source.bytes > message.inline_bytes) [[unlikely]]
    wr.send_flags = IBV_SEND_SIGNALED;
  wr.wr.rdma.remote_addr = message.target.address;
  wr.wr.rdma.rkey = message.target.rkey;
  wr.imm_data = message.imm;
  ring_[room_.post_taken() & ring_mask_] = Mark::of(*message.request, Mark::kWhole);
  wr.wr_id = id_base_ | static_cast<std::uint32_t>(room_.posted());
  room_.announce();
  bytes_posted_ += message.source.bytes;
  ++doorbells_;
  const int error = single_.post(qp_.get());
  if (error != 0) [[unlikely]]
    refuse(error);
  return error == 0;
}

inline std::uint64_t* RecvQueuePair::credit_to(const verbs::RemoteTarget& target) noexcept {
  single_.wr().wr.rdma.remote_addr = target.address;
  single_.wr().wr.rdma.rkey = target.rkey;
  return single_.row();
}

inline bool RecvQueuePair::post_credit() noexcept {
  DCHECK(loop_.held());
  DCHECK(!in_staged_list && chain_.staged() == 0);
  DCHECK(room_.posted() - signaled_ + 1 < row_interval_);
  DCHECK(ring_[room_.posted() & ring_mask_]
             .is_row());  // an acceptor posts rows only, so no entry was ever anything else
  room_.post_taken();
  ++doorbells_;
  const int error = single_.post(qp_.get());
  if (error != 0) [[unlikely]]
    refuse(error);
  return error == 0;
}

inline void RecvQueuePair::post_cts(std::uint32_t bytes,
                                    const verbs::RemoteTarget& target) noexcept {
  DCHECK(loop_.held());
  DCHECK(!in_staged_list && chain_.staged() == 0);
  DCHECK(ring_[room_.posted() & ring_mask_].is_row());  // as in post_credit()
  room_.post_many(rows_.shape(bytes));
  if (refused_ || signal_next_ || room_.posted() - signaled_ >= row_interval_) [[unlikely]]
    return post_rows_signaled(target);
  ++doorbells_;
  if (const int error = rows_.post(qp_.get(), target); error != 0) [[unlikely]]
    refuse(error);
}

inline void QueuePair::ring() noexcept {
  if (refused_) [[unlikely]] {  // the path is lost, or is about to be, with whatever was staged
    chain_.clear();
    return;
  }
  DCHECK(loop_.held());
  DCHECK(chain_.staged() != 0 && chain_.staged() <= room_.outstanding());
  // Nobody waits for a row: its completion only makes room, so one in a quarter queue is signaled.
  if (!rows_only_) [[likely]] {
    signal_chain();
  } else if (signal_next_ || room_.posted() - signaled_ >= row_interval_) {
    signal_chain();
    signaled_ = room_.posted();
    signal_next_ = false;
  }
  ++doorbells_;
  if (const int error = chain_.post(qp_.get()); error != 0) [[unlikely]]
    refuse(error);
}

// Signals the last work request of a doorbell with data, so that whatever is posted completes
// without help from later traffic.
inline void QueuePair::signal_chain() noexcept {
  if (chain_.exceeds_interval()) [[unlikely]]
    signal_between();
  chain_.signal_last(id_base_ | static_cast<std::uint32_t>(room_.posted()));
}

// Ends a stripe. A message's last stripe completes the request, which is NCCL's again then.
inline void QueuePair::finish_stripe(Request& request) noexcept {
  DCHECK(request.cut.open != 0);
  if (--request.cut.open != 0) return;
  if (request.cut.uniform) [[likely]] {
    request.cut.uniform = false;
    DCHECK(request.channel->outstanding != 0);
    DCHECK(request.bytes <= place_.path->inflight_bytes());
    --request.channel->outstanding;
    place_.path->bulk_done += request.bytes;
  }
  request.complete_send();
}

// Ends a stripe of a message that several paths share: its path and its channel have counted the
// stripe by itself.
inline void QueuePair::finish_shared(Request& request) noexcept {
  DCHECK(!request.cut.uniform);
  DCHECK(request.channel->outstanding != 0);
  DCHECK(request.cut.stripe_bytes <= place_.path->inflight_bytes());
  place_.path->bulk_done += request.cut.stripe_bytes;
  --request.channel->outstanding;
  finish_stripe(request);
}

inline void QueuePair::retire_through(std::uint32_t count) noexcept {
  DCHECK(loop_.held());
  ++completions_;
  std::uint64_t at = room_.retired();
  const std::uint32_t ended = count - static_cast<std::uint32_t>(at);
  if (std::uint64_t{ended - 1} >= room_.outstanding())
      [[unlikely]]  // nothing new: a later one was seen already
    return;
  const std::uint64_t limit = at + ended;
  do {
    const Mark mark = ring_[at & ring_mask_];
    if (mark.is_uniform()) {
      finish_stripe(*mark.request());
    } else if (mark.is_whole()) {
      DCHECK(mark.whole().channel->outstanding != 0);
      mark.whole().complete_whole();
      --mark.whole().channel->outstanding;
    } else if (!mark.is_row()) [[unlikely]] {
      retire_part(at);
    } else if (rows_only_) {
      break;
    }
  } while (++at != limit);
  room_.retire_through(limit);
}

}  // namespace mesh::engine

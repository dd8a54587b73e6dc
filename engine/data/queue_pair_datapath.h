#pragma once
// What a queue pair does on a message's way: work requests into its chain or straight to the
// device, doorbells, and completed work requests back to their requests. Thread: loop (token).
// Bounds: those of queue_pair.h.

#include "engine/data/peer_link.h"
#include "engine/data/progress_loop.h"
#include "engine/data/queue_pair.h"
#include "src/base/check.h"

#include <cstdint>

namespace mesh::engine {

inline Mark& QueuePair::note() noexcept {
  if (!in_staged_list) loop_.add_staged(*this);
  DCHECK(has_room(1));
  --budget_;
  return ring_[posted_++ & ring_mask_];
}

inline void QueuePair::make_place() noexcept {
  if (chain_.full()) [[unlikely]]
    ring_full();
}

inline void QueuePair::announce(ibv_send_wr& wr, std::uint32_t imm) noexcept {
  DCHECK(announced_ < window_end_);
  verbs::WrChain::announce(wr, imm);
  ++announced_;
}

inline void QueuePair::stage_data(const Data& data) noexcept {
  DCHECK(loop_.held());
  DCHECK(!rows_only_);
  DCHECK(data.request->channel->outstanding != 0);
  DCHECK(data.source.bytes <= place_.link->policy().wr_bytes);
  DCHECK(data.ends == Ends::Nothing || slot_of(data.imm) == slot_of(data.request->imm()));
  make_place();
  ibv_send_wr& wr = chain_.write(data.source, data.target, inline_bytes_);
  if (data.source.bytes == 0) [[unlikely]]
    wr.num_sge = 0;
  if (data.ends != Ends::Nothing) announce(wr, data.imm);
  const std::uint32_t counted = data.source.bytes & counted_;
  bytes_posted_ += data.source.bytes - counted;
  place_.path->bulk_posted += counted;
  place_.link->forget_uniform_grant();
  parts_[posted_ & ring_mask_] = {
      .counted_bytes = counted, .ends = data.ends, .stripe = data.stripe};
  note() = Mark::of(*data.request, 0);
}
inline void QueuePair::stage_stripe(const EvenStripe& stripe) noexcept {
  DCHECK(has_room(1));
  DCHECK(announced_ < window_end_);
  DCHECK(counted_ != 0);
  DCHECK(!chain_.full());
  DCHECK(stripe.source.bytes != 0);
  DCHECK(Mark{stripe.mark}.is_even());
  chain_.write_announced(stripe.source, stripe.target, stripe.imm);
  ++announced_;
  if (!in_staged_list) loop_.add_staged(*this);
  ring_[posted_++ & ring_mask_].word = stripe.mark;
}
inline void QueuePair::stage_message(const Data& data) noexcept {
  DCHECK(loop_.held());
  DCHECK(counted_ == 0);
  DCHECK(data.source.bytes != 0);
  bytes_posted_ += data.source.bytes;
  DCHECK(!chain_.full());
  announce(chain_.write(data.source, data.target, inline_bytes_), data.imm);
  note() = Mark::of(*data.request, Mark::kWhole);
}

inline std::uint64_t* QueuePair::stage_row(std::uint32_t bytes,
                                           const verbs::RemoteTarget& target) noexcept {
  DCHECK(loop_.held());
  DCHECK(bytes != 0 && bytes <= row_bytes_max_ && bytes % sizeof(std::uint64_t) == 0);
  make_place();
  note() = {};
  return chain_.write_row(bytes, target);
}

inline bool QueuePair::post_message(const Data& data) noexcept {
  DCHECK(loop_.held());
  DCHECK(!in_staged_list && chain_.staged() == 0);
  DCHECK(has_room(1));
  DCHECK(announced_ < window_end_);
  DCHECK(!rows_only_ && counted_ == 0);
  ibv_send_wr& wr = message_.wr();
  message_.gather() = {
      .addr = data.source.address, .length = data.source.bytes, .lkey = data.source.lkey};
  wr.send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE;
  if (data.source.bytes > inline_bytes_) [[unlikely]]
    wr.send_flags = IBV_SEND_SIGNALED;
  wr.wr.rdma.remote_addr = data.target.address;
  wr.wr.rdma.rkey = data.target.rkey;
  wr.imm_data = data.imm;
  ring_[posted_++ & ring_mask_] = Mark::of(*data.request, Mark::kWhole);
  wr.wr_id = id_base_ | static_cast<std::uint32_t>(posted_);
  ++announced_;
  bytes_posted_ += data.source.bytes;
  ++doorbells_;
  const int error = message_.post(qp_.get());
  if (error != 0) [[unlikely]]
    refuse(error);
  return error == 0;
}

inline std::uint64_t* QueuePair::row_to(const verbs::RemoteTarget& target) noexcept {
  DCHECK(rows_only_);
  row_.wr().wr.rdma.remote_addr = target.address;
  row_.wr().wr.rdma.rkey = target.rkey;
  return row_.row();
}

inline bool QueuePair::post_row() noexcept {
  DCHECK(loop_.held());
  DCHECK(!in_staged_list && chain_.staged() == 0);
  DCHECK(has_room(1));
  DCHECK(posted_ - signaled_ + 1 < row_interval_);
  DCHECK(ring_[posted_ & ring_mask_]
             .is_row());  // who posts rows so posts nothing else: no entry was ever anything
  ++posted_;
  ++doorbells_;
  const int error = row_.post(qp_.get());
  if (error != 0) [[unlikely]]
    refuse(error);
  return error == 0;
}

inline void QueuePair::ring() noexcept {
  if (refused_) [[unlikely]] {  // the link is about to fail; whatever was staged goes with it
    chain_.clear();
    return;
  }
  DCHECK(loop_.held());
  DCHECK(chain_.staged() != 0 && chain_.staged() <= posted_ - retired_);
  // Nobody waits for a row: its completion only makes room, so one in a quarter queue is enough.
  if (!rows_only_) [[likely]] {
    signal_chain();
  } else if (signal_next_ || posted_ - signaled_ >= row_interval_) {
    signal_chain();
    signaled_ = posted_;
    signal_next_ = false;
  }
  ++doorbells_;
  if (const int error = chain_.post(qp_.get()); error != 0) [[unlikely]]
    refuse(error);
}

// The last one of a doorbell with data is signaled, so that whatever is posted completes without
// help from later traffic.
inline void QueuePair::signal_chain() noexcept {
  if (chain_.exceeds_interval()) [[unlikely]]
    signal_between();
  chain_.signal_last(id_base_ | static_cast<std::uint32_t>(posted_));
}

// The last one of its message's is the message's end, after which the request is NCCL's again.
inline void QueuePair::finish_stripe(Request& request) noexcept {
  DCHECK(request.open_stripes != 0);
  if (--request.open_stripes != 0) return;
  if (request.uniform) [[likely]] {
    request.uniform = false;
    DCHECK(request.channel->outstanding != 0);
    DCHECK(request.bytes <= place_.path->inflight_bytes());
    --request.channel->outstanding;
    place_.path->bulk_done += request.bytes;
  }
  request.complete_send();
}

inline void QueuePair::retire_through(std::uint32_t count) noexcept {
  DCHECK(loop_.held());
  ++completions_;
  std::uint64_t at = retired_;
  const std::uint32_t ended = count - static_cast<std::uint32_t>(at);
  if (std::uint64_t{ended - 1} >= posted_ - at)
      [[unlikely]]  // none: an older one than was seen already
    return;
  const std::uint64_t limit = at + ended;
  do {
    const Mark mark = ring_[at & ring_mask_];
    if (mark.is_even()) {
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
  retired_ = limit;
  DCHECK(retired_ <= posted_);
}

}  // namespace mesh::engine

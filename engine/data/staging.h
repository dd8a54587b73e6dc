#pragma once
// A part of turn.h: work requests into a queue pair's chain or straight to the device, and
// doorbells. Thread: loop (token).

#include "engine/data/peer_link.h"
#include "engine/data/progress_loop.h"
#include "src/base/check.h"

#include <cstdint>

namespace mesh::engine {

inline void ProgressLoop::add_staged(QueuePair& queue_pair) noexcept {
  has_work_ = true;
  queue_pair.in_staged_list = true;
  queue_pair.next_staged = staged_;
  staged_ = &queue_pair;
}

inline Mark& QueuePair::note() noexcept {
  if (!in_staged_list) loop_.add_staged(*this);
  --budget_;
  return ring_[posted_++ & ring_mask_];
}

inline void QueuePair::make_place() noexcept {
  if (chain_.full()) [[unlikely]]
    ring_full();
}

inline void QueuePair::announce(ibv_send_wr& wr, std::uint32_t imm) noexcept {
  verbs::WrChain::announce(wr, imm);
  ++announced_;
}

inline void QueuePair::stage_data(const Data& data) noexcept {
  make_place();
  ibv_send_wr& wr = chain_.write(data.source, data.target, inline_bytes_);
  if (data.source.bytes == 0) [[unlikely]]
    wr.num_sge = 0;
  if (data.ends != Ends::Nothing) announce(wr, data.imm);
  const std::uint32_t counted = data.source.bytes & counted_;
  bytes_posted_ += data.source.bytes - counted;
  place_.path->bulk_posted += counted;
  place_.link->forget_even();
  parts_[posted_ & ring_mask_] = {
      .counted_bytes = counted, .ends = data.ends, .stripe = data.stripe};
  note() = Mark::of(*data.request, 0);
}
inline void QueuePair::stage_stripe(const EvenStripe& stripe) noexcept {
  DCHECK(has_room(1) && announced_ != window_end_ && counted_ != 0 && !chain_.full());
  chain_.write_announced(stripe.source, stripe.target, stripe.imm);
  ++announced_;
  if (!in_staged_list) loop_.add_staged(*this);
  ring_[posted_++ & ring_mask_].word = stripe.mark;
}
inline void QueuePair::stage_message(const Data& data) noexcept {
  bytes_posted_ += data.source.bytes;
  DCHECK(!chain_.full());
  announce(chain_.write(data.source, data.target, inline_bytes_), data.imm);
  note() = Mark::of(*data.request, Mark::kWhole);
}

inline std::uint64_t* QueuePair::stage_row(std::uint32_t bytes,
                                           const verbs::RemoteTarget& target) noexcept {
  make_place();
  note() = {};
  return chain_.write_row(bytes, target);
}

inline bool QueuePair::post_message(const Data& data) noexcept {
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
  row_.wr().wr.rdma.remote_addr = target.address;
  row_.wr().wr.rdma.rkey = target.rkey;
  return row_.row();
}

inline bool QueuePair::post_row() noexcept {
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

inline void ProgressLoop::ring_staged() noexcept {
  if (staged_ != nullptr) ++events_;
  while (staged_ != nullptr) {
    QueuePair& queue_pair = *staged_;
    staged_ = queue_pair.next_staged;
    queue_pair.in_staged_list = false;
    queue_pair.ring();
  }
  if (has_refused_) [[unlikely]]
    fail_refused();
}

}  // namespace mesh::engine

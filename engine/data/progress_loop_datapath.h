#pragma once
// The message path of a loop. With this header, isend, irecv and test become one function each, and
// with the progress lock held they call nothing but verbs. Whatever is rare lies behind a call into
// the .cc files, and its declaration says gnu::noinline, because every message would pay for its
// frame. Include this header only where a loop is turned. Thread: loop (progress lock), and NCCL's
// thread for submit and try_turn. Bounds: those of progress_loop.h.

#include "engine/data/channel_table.h"
#include "engine/data/device_context.h"
#include "engine/data/peer_link.h"
#include "engine/data/progress_loop.h"
#include "engine/data/queue_pair_datapath.h"
#include "engine/data/recv_channel_datapath.h"
#include "engine/data/send_channel_datapath.h"
#include "src/base/check.h"

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>

namespace mesh::engine {

// ---- Completions: each goes to its queue pair, and an announcement (write-with-immediate
// completion) to the receive that expects it.

inline Request* ChannelTable::on_announcement(std::uint64_t imm, std::uint64_t bytes,
                                              Behind behind) noexcept {
  DCHECK(link_.loop().held());
  const Slots& slots = slots_[(imm >> kChannelShift) & slots_mask_];
  Request& slot = slots.first[(imm >> kGenerationBits) & slots.mask];
  // The slot expects an immediate without a number of stripes, so only that number may differ.
  const std::uint64_t differs = slot.expected ^ imm;
  if (differs == std::uint64_t{1} << kStripesShift) [[likely]] {
    return RecvChannel::of(*slot.channel)
        .on_message(slot, static_cast<std::uint32_t>(bytes), behind);
  } else if (const std::uint64_t stripes = std::rotr(differs, kStripesShift);
             stripes - 1 < kStripesTold) {
    DCHECK(slot.landed.count() < kStripesTold);
    slot.landed.add(bytes);
    if (slot.landed.count() == static_cast<std::uint8_t>(stripes))
      RecvChannel::of(*slot.channel).on_stripes(slot);
  } else {
    on_rare_announcement(slot, imm);
  }
  return nullptr;
}

inline Request* DeviceContext::dispatch(const ibv_wc& completion, Behind behind) noexcept {
  DCHECK((completion.wr_id >> 48) < live_.size());
  const LiveEntry& entry = live_[completion.wr_id >> 48];  // ids are ours: the entry exists
  if (completion.wr_id == entry.receive_id) [[likely]] {
    QueuePair& found = *entry.queue_pair;
    if (completion.status != IBV_WC_SUCCESS) [[unlikely]] {
      found.link().on_error_completion(found, completion);
      return nullptr;
    }
    found.on_receives(1);
    return found.link().channels().on_announcement(completion.imm_data, completion.byte_len,
                                                   behind);
  }
  // All bits but these name the entry and its life: these are the receive mark and the count.
  constexpr std::uint64_t kOther = kReceiveBit | 0xffff'ffff;
  if (((completion.wr_id ^ entry.receive_id) & ~kOther) != 0) [[unlikely]]
    return dispatch_timed(completion);
  DCHECK(entry.queue_pair != nullptr);
  finish_posted(*entry.queue_pair, completion);
  return nullptr;
}

inline void DeviceContext::finish_posted(QueuePair& queue_pair, const ibv_wc& completion) noexcept {
  if (completion.status != IBV_WC_SUCCESS) [[unlikely]]
    return queue_pair.link().on_error_completion(queue_pair, completion);
  queue_pair.retire_through(static_cast<std::uint32_t>(completion.wr_id));
}

// Most polls bring one completion or none, so that case costs no loop.
inline std::uint32_t DeviceContext::poll(ibv_cq* queue) noexcept {
  std::array<ibv_wc, kPollBatch> completions;
  const int count = ibv_poll_cq(queue, kPollBatch, completions.data());
  if (count == 1) {
    dispatch(completions[0], Behind::Nothing);
    return 1;
  }
  return count == 0 ? 0 : dispatch_all(completions.data(), count);
}

// ---- Progress lock. seq_cst: the thread that leaves mail or the one that releases sees the
// other's store.

inline bool ProgressLoop::try_acquire() noexcept {
  std::uint32_t free = 0;  // neither held nor wanted by a Guard
  const bool taken = progress_lock_.compare_exchange_strong(free, kHeld, std::memory_order_seq_cst,
                                                            std::memory_order_seq_cst);
  if (taken) holder_.take();
  return taken;
}

inline void ProgressLoop::release() noexcept {
  DCHECK(held());
  DCHECK(staged_ == nullptr);  // nothing waits for a doorbell that nobody rings
  holder_.leave();
  progress_lock_.fetch_sub(kHeld, std::memory_order_seq_cst);
}

inline void ProgressLoop::after_release() noexcept {
  if (mailbox_.load(std::memory_order_seq_cst) != 0) [[unlikely]]
    answer_mail();
}

// ---- Doorbells.

inline void ProgressLoop::add_staged(QueuePair& queue_pair) noexcept {
  DCHECK(held());
  DCHECK(!queue_pair.in_staged_list);
  queue_pair.in_staged_list = true;
  queue_pair.next_staged = staged_;
  staged_ = &queue_pair;
}

inline void ProgressLoop::answer_refusals() noexcept {
  if (has_refused_) [[unlikely]]
    fail_refused();
}

inline void ProgressLoop::ring_staged() noexcept {
  DCHECK(held());
  if (staged_ != nullptr) ++events_;
  while (staged_ != nullptr) {
    QueuePair& queue_pair = *staged_;
    DCHECK(queue_pair.in_staged_list);
    staged_ = queue_pair.next_staged;
    queue_pair.in_staged_list = false;
    queue_pair.ring();
  }
  answer_refusals();
}

// ---- Turns.

inline bool advance_now(SendChannel& channel) noexcept { return channel.advance(false); }
inline bool advance_now(RecvChannel& channel) noexcept { return channel.advance(); }

inline void ProgressLoop::visit(Channel& channel) noexcept {
  DCHECK(held());
  DCHECK(!channel.active);
  const bool again = channel.side == Side::Send ? advance_now(SendChannel::of(channel))
                                                : advance_now(RecvChannel::of(channel));
  if (again) wait_for_visit(channel);
}

template <typename Kind>
[[gnu::flatten, gnu::noinline]] void ProgressLoop::visit_and_ring(Kind& channel) noexcept {
  if (advance_now(channel)) wait_for_visit(channel);
  ring_staged();
}

template <typename Kind>
inline void ProgressLoop::submit(Kind& channel, Request& request) noexcept {
  DCHECK(&channel.loop == this);
  if (try_acquire()) [[likely]] {
    if (!channel.post_at_once(request)) visit_and_ring<Kind>(channel);
    release();
  } else {
    leave_mail(channel);
  }
  after_release();
}

inline void ProgressLoop::poll_once(Channel* first) noexcept {
  DCHECK(held());
  DCHECK(first == nullptr || &first->loop == this);
  ++turns_;
  // Completions first: they make room in queues and windows for all that follows.
  if (only_.device != nullptr) [[likely]] {
    const std::uint32_t taken = only_.device->poll(only_.queue);
    events_ += taken;
    if (taken == kPollBatch) [[unlikely]]
      poll_on(only_);
  } else {
    poll_several(first);
  }
  if (has_work_ || (first != nullptr && first->has_new())) work(first);
}

inline bool ProgressLoop::try_turn(Channel* first) noexcept {
  if (!try_acquire()) return false;
  poll_once(first);
  release();
  after_release();
  return true;
}

}  // namespace mesh::engine

#pragma once
// A part of turn.h: what completion queues hold, back to queue pairs, channels and requests.
// Thread: loop (token).

#include "engine/data/peer_link.h"
#include "engine/data/progress_loop.h"
#include "src/base/check.h"

#include <array>
#include <bit>
#include <cstdint>

namespace mesh::engine {

// The last one of its message's is the message's end, after which the request is NCCL's again.
inline void QueuePair::finish_stripe(Request& request) noexcept {
  if (--request.open_stripes != 0) return;
  if (request.even) [[likely]] {
    request.even = false;
    --request.channel->outstanding;
    place_.path->bulk_done += request.bytes;
  }
  request.complete_send();
}

inline void QueuePair::retire_through(std::uint32_t count) noexcept {
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
      mark.whole().complete_whole();
      --mark.whole().channel->outstanding;
    } else if (!mark.is_row()) [[unlikely]] {
      retire_part(at);
    } else if (rows_only_) {
      break;
    }
  } while (++at != limit);
  retired_ = limit;
}

inline void RecvChannel::on_message(Request& slot, std::uint32_t bytes) noexcept {
  if (bytes > slot.bytes) [[unlikely]]
    return on_overrun(slot, bytes);
  count_received(slot, bytes);
  slot.complete(bytes);
}

// All stripes of a message of several have landed.
inline void RecvChannel::on_stripes(Request& slot) noexcept {
  const std::uint64_t size = slot.stripes >> Request::kBytesShift;
  if (size > slot.bytes) [[unlikely]]
    return on_overrun(slot, size);
  count_stripes_received(slot, size);
  slot.complete(size);
}

inline void PeerLink::on_announcement(std::uint64_t imm, std::uint64_t bytes) noexcept {
  const Slots& slots = slots_[(imm >> kChannelShift) & slots_mask_];
  Request& slot = slots.first[(imm >> kGenerationBits) & slots.mask];
  // What is expected says no number of stripes: the immediate's is all that may differ.
  const std::uint64_t differs = slot.expected ^ imm;
  if (differs == std::uint64_t{1} << kStripesShift) [[likely]] {
    static_cast<RecvChannel*>(slot.channel)->on_message(slot, static_cast<std::uint32_t>(bytes));
  } else if (const std::uint64_t stripes = std::rotr(differs, kStripesShift);
             stripes - 1 < kStripesTold) {
    slot.stripes += (bytes << Request::kBytesShift) + 1;
    if (slot.stripe_count() == static_cast<std::uint8_t>(stripes))
      static_cast<RecvChannel*>(slot.channel)->on_stripes(slot);
  } else {
    on_rare_announcement(slot, imm);
  }
}

inline void Lane::dispatch(const ibv_wc& completion) noexcept {
  const Seat& seat = by_place_[completion.wr_id >> 48];  // ids are ours: the place exists
  if (completion.wr_id == seat.receive_id) [[likely]] {
    QueuePair& found = *seat.queue_pair;
    if (completion.status != IBV_WC_SUCCESS) [[unlikely]]
      return found.link().on_error_completion(found, completion);
    found.on_receive();
    return found.link().on_announcement(completion.imm_data, completion.byte_len);
  }
  // Place and life: what is not a receive mark or a count.
  constexpr std::uint64_t kOther = kReceiveBit | 0xffff'ffff;
  if (((completion.wr_id ^ seat.receive_id) & ~kOther) != 0) [[unlikely]]
    return;
  QueuePair& found = *seat.queue_pair;
  if (completion.status != IBV_WC_SUCCESS) [[unlikely]]
    return found.link().on_error_completion(found, completion);
  found.retire_through(static_cast<std::uint32_t>(completion.wr_id));
}

// One completion, or none, is what most polls bring: it costs no loop.
inline std::uint32_t Lane::poll(ibv_cq* queue) noexcept {
  std::array<ibv_wc, kPollBatch> completions;
  const int count = ibv_poll_cq(queue, kPollBatch, completions.data());
  if (count == 1) {
    dispatch(completions[0]);
    return 1;
  }
  return count == 0 ? 0 : dispatch_all(completions.data(), count);
}

}  // namespace mesh::engine

#pragma once
// A part of turn.h: what completion queues hold, back to queue pairs, channels and requests.
// Thread: loop (token).

#include "engine/peer_link.h"
#include "engine/progress_loop.h"

#include <array>
#include <cstdint>

namespace mesh::engine {

inline void QueuePair::retire_part(const Posted& entry) noexcept {
  Request& request = *entry.request();
  place_.path->bulk_done += entry.counted_bytes;
  --request.channel->outstanding;
  if (entry.ends == kEndsMessage || ((entry.ends & kEndsStripe) != 0 && --request.open_stripes == 0)) request.complete_send();
}

inline void QueuePair::retire_through(std::uint32_t count) noexcept {
  ++completions_;
  std::uint64_t at = retired_;
  const std::uint32_t ended = count - static_cast<std::uint32_t>(at);
  if (std::uint64_t{ended - 1} >= posted_ - at) [[unlikely]]  // none: an older one than was seen already
    return;
  const std::uint64_t limit = at + ended;
  do {
    const Posted& entry = ring_[at & ring_mask_];
    if (entry.mark == 0) {
      if (rows_only_) break;
    } else if (entry.is_part()) {
      retire_part(entry);
    } else {
      Request& request = *reinterpret_cast<Request*>(entry.mark);
      request.complete_whole();
      --request.channel->outstanding;
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

// One stripe of a message of several has landed.
inline void RecvChannel::on_stripe(Request& slot, std::uint32_t imm) noexcept {
  Record& record = records_[(imm >> kGenerationBits) & slot_mask];
  // The record came before stripe 0's announcement on the same queue pair; until then other stripes only count.
  if (!record_says(record, ++slot.announced)) return;
  const std::uint64_t size = record_bytes(record);
  if ((size & kRecordTruncated) != 0) [[unlikely]]
    return on_truncated(slot, size & ~kRecordTruncated);
  if (size > slot.bytes) [[unlikely]]
    return on_overrun(slot, size);
  count_received(slot, size);
  slot.complete(size);
}

inline void PeerLink::on_announcement(std::uint32_t imm, std::uint32_t bytes) noexcept {
  const Slots& slots = slots_[(imm >> kChannelShift) & slots_mask_];
  Request& slot = slots.first[(imm >> kGenerationBits) & slots.mask];
  if (slot.expected == imm) {
    static_cast<RecvChannel*>(slot.channel)->on_message(slot, bytes);
  } else if (slot.expected == (imm ^ kRecordBit)) {
    static_cast<RecvChannel*>(slot.channel)->on_stripe(slot, imm);
  } else {
    loop_.counters.late_announcements.add(1);
  }
}

inline void Lane::dispatch(const ibv_wc& completion) noexcept {
  const Seat& seat = by_place_[completion.wr_id >> 48];  // ids are ours: the place exists
  // Place and life: what is not a receive mark or a count.
  constexpr std::uint64_t kOther = kReceiveBit | 0xffff'ffff;
  if (((completion.wr_id ^ seat.id_base) & ~kOther) != 0) [[unlikely]]
    return;
  QueuePair& found = *seat.queue_pair;
  if (completion.status != IBV_WC_SUCCESS) [[unlikely]] {
    found.link().on_error_completion(found, completion);
    return;
  }
  if ((completion.wr_id & kReceiveBit) == 0) {
    found.retire_through(static_cast<std::uint32_t>(completion.wr_id));
    return;
  }
  found.on_receive();
  found.link().on_announcement(__builtin_bswap32(completion.imm_data), completion.byte_len);
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

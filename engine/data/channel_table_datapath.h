#pragma once
// The message path of a channel table: an announcement (write-with-immediate completion) goes to
// the receive that expects it. Thread: loop (progress lock). Bounds: those of channel_table.h.

#include "engine/data/channel_table.h"
#include "engine/data/peer_link.h"
#include "engine/data/recv_channel_datapath.h"
#include "src/base/check.h"

#include <bit>
#include <cstdint>

namespace mesh::engine {

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

}  // namespace mesh::engine

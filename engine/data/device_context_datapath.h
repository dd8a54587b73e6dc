#pragma once
// The message path of a device context: it polls completions and hands each to its queue pair.
// Thread: loop (progress lock). Bounds: those of device_context.h.

#include "engine/data/channel_table_datapath.h"
#include "engine/data/device_context.h"
#include "engine/data/queue_pair_datapath.h"
#include "src/base/check.h"

#include <array>
#include <cstdint>

namespace mesh::engine {

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
    return nullptr;
  QueuePair& found = *entry.queue_pair;
  DCHECK(entry.queue_pair != nullptr);
  if (completion.status != IBV_WC_SUCCESS) [[unlikely]] {
    found.link().on_error_completion(found, completion);
    return nullptr;
  }
  found.retire_through(static_cast<std::uint32_t>(completion.wr_id));
  return nullptr;
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

}  // namespace mesh::engine

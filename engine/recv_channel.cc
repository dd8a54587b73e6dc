#include "engine/recv_channel.h"

#include "engine/peer_link.h"
#include "engine/progress_loop.h"
#include "engine/registration.h"

#include <algorithm>

namespace mesh::engine {

RecvChannel::RecvChannel(PeerLink& link_of, std::uint32_t index_of, Record* records)
    : Channel(link_of, Side::Receive, index_of), records_(records), live_(slot_count) {}

bool RecvChannel::advance() noexcept {
  const std::uint64_t limit = submitted.load(std::memory_order_acquire);
  const Errc broken = failure.load(std::memory_order_relaxed);
  for (; accepted != limit; ++accepted) {
    const auto slot = static_cast<std::uint32_t>(accepted) & slot_mask;
    if (broken != Errc::Ok) {
      requests[slot].fail(broken);
      continue;
    }
    if (!link.express(index).has_room(1)) {
      loop.counters.queue_stalls.add(1);
      return true;
    }
    give_credit(slot);
  }
  return false;
}

void RecvChannel::give_credit(std::uint32_t slot) noexcept {
  const Request& request = requests[slot];
  Credit credit{.address = request.address,
                .bytes = request.bytes,
                .tag = request.tag,
                .generation = generation_of(accepted, slot_count, generation_base),
                .rkeys = {}};
  if (request.region != nullptr) {
    for (std::uint32_t path = 0; path < link.path_count(); ++path) {
      credit.rkeys[path] = request.region->keys(link.path(path).lane->index()).rkey;
    }
  }
  live_[slot] = {.generation = credit.generation, .announced = 0, .out = true};
  QueuePair& queue_pair = link.express(index);
  const CreditRow row = encode_credit(credit);
  queue_pair.stage_row(&row, sizeof row,
                       {.address = credits_.address + slot * sizeof(CreditRow), .rkey = credits_.rkeys[queue_pair.path().index]});
  loop.counters.credits_sent.add(1);
}

void RecvChannel::on_announcement(const Announcement& announcement, std::uint32_t bytes) noexcept {
  Live* live = announcement.slot < slot_count ? &live_[announcement.slot] : nullptr;
  if (live == nullptr || !live->out || ((live->generation ^ announcement.generation) & kGenerationMask) != 0) {
    loop.counters.late_announcements.add(1);
    return;
  }
  if (!announcement.record) {
    finish(announcement.slot, bytes);
    return;
  }
  ++live->announced;
  std::uint64_t size = 0;
  // The record came before stripe 0's announcement on the same queue pair; until then other stripes only count.
  if (read_record(records_[announcement.slot], live->generation, &size) == live->announced) finish(announcement.slot, size);
}

void RecvChannel::finish(std::uint32_t slot, std::uint64_t size) noexcept {
  Request& request = requests[slot];
  live_[slot].out = false;
  ++received_;
  loop.counters.messages_received.add(1);
  if ((size & kRecordTruncated) != 0) {
    link.report_truncated(size & ~kRecordTruncated, request.bytes);
    request.fail(Errc::Truncated);
    return;
  }
  loop.counters.bytes_received.add(size);
  request.complete(size);
}

bool RecvChannel::names(const Registration& region) const noexcept {
  for (std::uint32_t slot = 0; slot < slot_count; ++slot) {
    const Request& request = requests[slot];
    // acquire: pairs with publish(); the region was written before.
    if (request.state.load(std::memory_order_acquire) == RequestState::Submitted && request.region == &region) return true;
    // A receive that has failed may still have its credit at the sender; the slot is not used again then.
    if (live_[slot].out && request.region == &region) return true;
  }
  return false;
}

bool RecvChannel::has_live_credit() const noexcept {
  return std::any_of(live_.begin(), live_.end(), [](const Live& live) { return live.out; });
}

}  // namespace mesh::engine

#pragma once
// The message path of a receive channel: it writes credits, and completes a receive when all
// stripes of its message have landed. Everything else is behind a call (recv_channel.cc). Thread:
// loop (progress lock). Bounds: those of recv_channel.h.

#include "engine/data/progress_loop.h"
#include "engine/data/queue_pair_datapath.h"
#include "engine/data/recv_channel.h"
#include "engine/data/registration.h"
#include "src/base/check.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace mesh::engine {

inline void RecvChannel::write_credit(Request& request, std::uint32_t imm,
                                      std::uint64_t* words) noexcept {
  DCHECK(is_open(request.state.load(std::memory_order_relaxed)) ||
         ReceiveGroups::is_open_member(request));
  DCHECK(request.expected == kNoAnnouncement);  // its credit before this one is used up
  DCHECK(request.landed.none());
  DCHECK(&request == &requests[slot_of(imm)]);
  DCHECK(channel_of(imm) == index && stripes_of(imm) == 0);
  request.expected = imm;
  request.generation = cursor_.generation();
  const std::uint32_t rkey = request.region == nullptr ? 0 : request.region->keys(first_rail_).rkey;
  encode_near(words,
              {.first = request.address, .second = request.bytes, .third = join(request.tag, rkey)},
              cursor_.generation());
  if (key_count_ > 1) [[unlikely]]
    write_far_keys(request, words);
}

// Posts the credit of the receive at once if it is the only new one. Returns false, for advance()
// to follow, on the slow path, without reserved room, or if the post was refused.
inline bool RecvChannel::post_at_once(Request& request) noexcept {
  DCHECK(loop.held());
  // The channel may have failed since NCCL's thread looked; whoever fails it has accepted all there
  // was and will not come again.
  DCHECK(slow_path_ || failure.load(std::memory_order_relaxed) == Errc::Ok);
  if (slow_path_) [[unlikely]]
    return false;
  const std::uint64_t sequence = accepted.load(std::memory_order_relaxed);
  if (sequence + 1 != submitted.load(std::memory_order_relaxed) || !express_->try_take_one())
    return false;
  DCHECK(!express_->in_staged_list);
  accepted.store(sequence + 1, std::memory_order_relaxed);
  RecvQueuePair& express = *express_;
  std::uint64_t* const words =
      express.credit_to({.address = cursor_.address(), .rkey = credits_rkey_});
  write_credit(request, cursor_.imm(), words);
  cursor_.step();
  return express.post_credit();
}

inline bool RecvChannel::advance() noexcept {
  DCHECK(loop.held());
  const std::uint64_t limit = submitted.load(std::memory_order_acquire);
  DCHECK(slow_path_ || failure.load(std::memory_order_relaxed) == Errc::Ok);
  if (slow_path_) [[unlikely]]
    return advance_slow_path(limit);
  std::uint64_t sequence = accepted.load(std::memory_order_relaxed);
  while (sequence != limit) {
    if (!express_->try_take_cts()) [[unlikely]] {
      loop.counters.queue_stalls.add(1);
      return true;
    }
    sequence = give_credits(sequence, limit);
    accepted.store(sequence, std::memory_order_relaxed);
  }
  return false;
}

// Writes the credits of receives whose entries follow one another in the ring with one write: as
// many as fit into the write and into the ring's rest.
inline std::uint64_t RecvChannel::give_credits(std::uint64_t sequence,
                                               std::uint64_t limit) noexcept {
  std::uint64_t entries = limit - sequence;
  if (entries > cts_per_write_) entries = cts_per_write_;
  if (entries > cursor_.slots_left()) entries = cursor_.slots_left();
  const std::uint32_t cts_bytes = cursor_.cts_bytes();
  DCHECK(entries != 0 && entries * cts_bytes <= express_->cts_bytes_max());
  DCHECK(express_->path().health.state == PathState::Up);
  std::uint64_t* words =
      express_->stage_credits(static_cast<std::uint32_t>(entries) * cts_bytes,
                              {.address = cursor_.address(), .rkey = credits_rkey_});
  std::uint32_t imm = cursor_.imm();
  Request* slot = &request(sequence);  // neighbours in the CTS FIFO are neighbours here
  Request* const end = slot + entries;
  do {
    write_credit(*slot, imm, words);
    imm += RingCursor::kImmStep;
    words += cts_bytes / sizeof(std::uint64_t);
  } while (++slot != end);
  cursor_.skip(static_cast<std::uint32_t>(entries));
  return sequence + entries;
}

// Returns true if no receive waits for its credit, and there is room for these.
inline bool RecvChannel::takes_at_once(std::size_t receives) const noexcept {
  DCHECK(loop.held());
  return !slow_path_ && key_count_ == 1 && !has_new() && cursor_.slots_left() >= receives &&
         express_->has_cts_room(receives);
}

// Publishes the members that fill_members() filled, and posts their credits.
inline void RecvChannel::give_group(std::size_t members) noexcept {
  groups.form(next_slot(), members);
  asked = false;
  const std::uint64_t given = accepted.load(std::memory_order_relaxed) + members;
  submitted.store(given, std::memory_order_release);  // as in publish()
  accepted.store(given, std::memory_order_relaxed);
  const std::uint64_t address = cursor_.address();
  cursor_.skip(static_cast<std::uint32_t>(members));
  express_->post_cts(static_cast<std::uint32_t>(members) * kCreditHalfBytes,
                     {.address = address, .rkey = credits_rkey_});
}

inline bool RecvChannel::post_group(const RecvGroup& group) noexcept {
  if (!takes_at_once(group.count)) return false;
  const std::size_t filled = fill_members(group, &next_slot());
  if (filled != group.count) [[unlikely]]
    return leave_group(filled);
  give_group(filled);
  loop.answer_refusals();
  return true;
}

inline Request* RecvChannel::on_message(Request& slot, std::uint32_t bytes,
                                        Behind behind) noexcept {
  if (bytes > slot.bytes) [[unlikely]] {
    on_overrun(slot, bytes);
    return nullptr;
  }
  DCHECK(slot.landed.none());
  count_received(slot, bytes);
  if (slot.complete(bytes)) [[likely]]
    return nullptr;
  if (behind == Behind::Others) return &slot;
  land_in_group(slot, bytes);
  return nullptr;
}

// Members in consecutive slots have consecutive immediates: a live one names a message of its own.
// The group is open until all are counted.
inline std::uint32_t RecvChannel::on_group(Request& slot,
                                           std::span<const ibv_wc> completions) noexcept {
  if (!ReceiveGroups::is_open_member(slot)) return 0;
  const ibv_wc& first = completions.front();
  const ReceiveGroups::Row row = groups.row_of(slot);
  if (row.count == 0) [[unlikely]] {
    land_in_group(slot, first.byte_len);
    return 0;
  }
  slot.bytes = first.byte_len;
  const std::uint32_t base = first.imm_data - slot.offset * RingCursor::kImmStep;
  const std::uint64_t receive_id = first.wr_id;
  const ibv_wc_status success = first.status;
  const ibv_wc* next = &first + 1;
  std::uint64_t bytes = 0;
  for (const ibv_wc* const end = &first + completions.size(); next != end; ++next) {
    if (next->wr_id != receive_id || next->status != success) break;
    const std::uint32_t place = std::rotr(next->imm_data - base, kGenerationBits);
    if (place >= row.count) break;
    Request& member = row.first[place];
    if (member.expected == kNoAnnouncement || next->byte_len > member.bytes) break;
    DCHECK(member.landed.none() && ReceiveGroups::is_open_member(member));
    member.expected = kNoAnnouncement;
    member.bytes = next->byte_len;
    bytes += next->byte_len;
  }
  const auto more = static_cast<std::uint32_t>(next - &first) - 1;
  received_ += more;
  received_bytes_ += bytes;
  ReceiveGroups::land(*row.first, more + 1);
  return more;
}

// Completes a receive of several stripes, all of which have landed.
inline void RecvChannel::on_stripes(Request& slot) noexcept {
  const std::uint64_t size = slot.landed.bytes();
  if (size > slot.bytes) [[unlikely]]
    return on_overrun(slot, size);
  count_stripes_received(slot, size);
  if (!slot.complete(size)) [[unlikely]]
    land_in_group(slot, size);
}

}  // namespace mesh::engine

#include "engine/data/recv_channel.h"

#include "engine/data/progress_loop_datapath.h"
#include "engine/data/waiting.h"
#include "src/base/check.h"

#include <algorithm>

namespace mesh::engine {

RecvChannel::RecvChannel(PeerLink& link_of, std::uint32_t index_of, Record* records)
    : Channel(link_of, Side::Receive, index_of),
      groups({requests.get(), slot_count}),
      express_(&link_of.express(index_of)),
      cursor_({.slots = slot_count,
               .row_bytes = credit_bytes(link_of.primary_count()),
               .channel = index_of}),
      key_count_(link_of.primary_count()),
      first_rail_(link_of.dormant() ? 0 : link_of.first_of_tier().rail),
      records_(records),
      tier_(link_of.tier()) {
  post_to(*express_);
}

void RecvChannel::post_to(QueuePair& express) noexcept {
  express_ = &express;
  express.set_row_bytes(cursor_.row_bytes());
  rows_per_write_ = express.row_bytes_max() / cursor_.row_bytes();
  DCHECK(rows_per_write_ != 0);
}

void RecvChannel::set_credits(const Credits& credits) noexcept {
  credits_ = credits;
  cursor_.set_base(credits.address);
  credits_rkey_ = credits.rkeys[express_->path().index];
}

// acquire: pairs with publish(). The channel has failed, and its first reason counts.
void RecvChannel::drop_unposted(Errc /*why*/) noexcept {
  fail_new(submitted.load(std::memory_order_acquire));
}

MessageCounts RecvChannel::counts() const noexcept {
  return {.messages = received_, .bytes_received = received_bytes_, .close_says = received_};
}

bool RecvChannel::fail_new(std::uint64_t limit) noexcept {
  DCHECK(loop.held());
  DCHECK(failure.load(std::memory_order_relaxed) != Errc::Ok);
  const std::uint64_t first = accepted.load(std::memory_order_relaxed);
  for (; accepted.load(std::memory_order_relaxed) != limit; accept_one()) {
    Request& unposted = request(accepted.load(std::memory_order_relaxed));
    if (unposted.state.load(std::memory_order_relaxed) == RequestState::Member)
      unposted.state.store(RequestState::Gathered, std::memory_order_relaxed);
  }
  // The first one of a group answers for its members.
  for (std::uint64_t sequence = first; sequence != limit; ++sequence)
    request(sequence).fail(failure.load(std::memory_order_relaxed));
  return false;
}

void RecvChannel::write_far_keys(const Request& request, std::uint64_t* words) const noexcept {
  DCHECK(key_count_ > 1);
  Credit credit{.generation = request.generation};
  const std::uint32_t first = link.first_of_tier().index;
  const std::uint32_t count = std::min(key_count_, link.path_count() - first);
  for (std::uint32_t place = 1; place < count && request.region != nullptr; ++place)
    credit.rkeys[place] = request.region->keys(link.path(first + place).rail).rkey;
  encode_far(words, credit);
}

// Larger than the receive has room for, which no sender of ours says.
void RecvChannel::on_overrun(const Request& slot, std::uint64_t said) noexcept {
  link.on_overrun(said, slot.bytes);
}

// The record came before stripe 0's announcement on the same queue pair; until then other stripes
// only count.
void RecvChannel::on_recorded(Request& slot) noexcept {
  Record& record = records_[&slot - requests.get()];
  ++slot.stripes;
  DCHECK(slot.stripe_count() != 0);
  if (!record_says(record, join(slot.stripe_count(), round_of(slot.generation)))) return;
  const std::uint64_t size = record_bytes(record);
  if ((size & kRecordTruncated) != 0) return on_truncated(slot, size & ~kRecordTruncated);
  if (size > slot.bytes) return on_overrun(slot, size);
  count_stripes_received(slot, size);
  if (!slot.complete(size)) land_in_group(slot, size);
}

void RecvChannel::on_truncated(Request& slot, std::uint64_t sent) noexcept {
  count_stripes_received(slot, 0);
  link.report_truncated(sent, slot.bytes);
  if (ReceiveGroups::is_open_member(slot)) groups.first_of(slot).error = Errc::Truncated;
  if (slot.state.load(std::memory_order_relaxed) == RequestState::Submitted)
    return slot.fail(Errc::Truncated);
  land_in_group(slot, 0);  // which may give the slot away
}

Request* RecvChannel::land_in_group(Request& slot, std::uint64_t bytes) noexcept {
  if (!ReceiveGroups::is_open_member(slot)) return nullptr;
  DCHECK(bytes <= slot.bytes);
  slot.bytes = bytes;
  Request& first = groups.first_of(slot);
  ReceiveGroups::land(first, 1);
  return &first;
}

std::uint32_t RecvChannel::on_group(Request& first, std::span<const ibv_wc> completions) noexcept {
  if (first.state.load(std::memory_order_relaxed) != RequestState::Group) return 0;
  const auto begin = reinterpret_cast<std::uintptr_t>(&first);
  const std::uintptr_t extent = groups.count_of(first) * sizeof first;
  Request* const ring = requests.get();
  const std::uint64_t mask = slot_mask, receive_id = completions[0].wr_id;
  std::uint64_t bytes = 0;
  std::uint32_t count = 0;
  for (const ibv_wc& next : completions.subspan(1)) {
    if (next.wr_id != receive_id || next.status != IBV_WC_SUCCESS) break;
    const std::uint64_t imm = next.imm_data;
    Request& slot = ring[(imm >> kGenerationBits) & mask];
    const bool whole = (slot.expected ^ imm) == std::uint64_t{1} << kStripesShift;
    if (!whole || next.byte_len > slot.bytes) break;
    if (reinterpret_cast<std::uintptr_t>(&slot) - begin >= extent) break;
    DCHECK(slot.stripes == 0 && ReceiveGroups::is_open_member(slot));
    slot.expected = kNoAnnouncement;
    slot.bytes = next.byte_len;
    bytes += next.byte_len;
    ++count;
  }
  if (count == 0) return 0;  // then the group may be NCCL's again
  received_ += count;
  received_bytes_ += bytes;
  ReceiveGroups::land(first, count);
  return count;
}

// Members that follow one another get their slots, and their rows at `words`. How many do: one
// whose slot is in use, or that is not within its region, ends it.
// Apart, so that what its loop needs has room in registers.
std::size_t RecvChannel::fill_members(const RecvGroup& group, const MemberRows& rows) noexcept {
  const std::uint32_t rail = first_rail_, generation = cursor_.generation();
  Request* slot = requests.get() + cursor_.slot() + rows.from;
  std::uint64_t imm = cursor_.imm() + rows.from * RingCursor::kImmStep;
  std::uint64_t* words = rows.words;
  const RecvGroup all = group;
  std::size_t i = rows.from;
  for (const std::size_t to = rows.to; i != to; ++i, ++slot) {
    const auto address = reinterpret_cast<std::uint64_t>(all.data[i]);
    const std::uint64_t bytes = all.bytes[i];
    auto* const region = static_cast<Registration*>(all.regions[i]);
    if (slot->state.load(std::memory_order_relaxed) != RequestState::Free) break;
    if (region == nullptr || !region->covers(all.data[i], bytes)) break;
    DCHECK(slot->expected == kNoAnnouncement && slot->stripes == 0);
    const auto tag = static_cast<std::uint32_t>(all.tags[i]);
    slot->address = address;
    slot->bytes = bytes;
    slot->tag = tag;
    slot->region = region;
    slot->generation = generation;
    slot->expected = imm;
    ReceiveGroups::join(*slot, i);
    encode_near(words,
                {.first = address, .second = bytes, .third = join(tag, region->keys(rail).rkey)},
                generation);
    imm += RingCursor::kImmStep;
    words += kCreditHalfBytes / sizeof(std::uint64_t);
  }
  return i;
}

// Of a group that takes none. Nothing is posted, so no message can be announced for them.
bool RecvChannel::leave_group(std::size_t members) noexcept {
  for (std::size_t i = 0; i < members; ++i) {
    Request& slot = requests[cursor_.slot() + i];
    slot.expected = kNoAnnouncement;
    ReceiveGroups::leave(slot);
  }
  express_->take_back_rows();
  return false;
}

bool RecvChannel::names(const Registration& region) const noexcept {
  for (std::uint32_t slot = 0; slot < slot_count; ++slot) {
    const Request& request = requests[slot];
    // acquire: pairs with publish(); the region was written before.
    if (is_open(request.state.load(std::memory_order_acquire)) && request.region == &region)
      return true;
    // A receive that has failed may still have its credit at the sender; the slot is not used again
    // then.
    if (request.expected != kNoAnnouncement && request.region == &region) return true;
  }
  return false;
}

Waiting RecvChannel::waiting(std::uint64_t sequence) noexcept {
  DCHECK(loop.held());
  DCHECK(sequence < submitted.load(std::memory_order_relaxed));
  if (sequence < accepted.load(std::memory_order_relaxed)) {
    return {.reason = WaitReason::Data, .landed = request(sequence).stripe_count()};
  }
  // Room for the next row, or the acknowledgement of rows that were written again.
  if (!express_->has_room(1) || express_->retired() < rewritten_until_)
    return {.reason = WaitReason::Queue, .path = &express_->path()};
  return {.reason = WaitReason::Turn};
}

}  // namespace mesh::engine

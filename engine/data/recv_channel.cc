#include "engine/data/recv_channel.h"

#include "engine/data/progress_loop_datapath.h"
#include "src/base/check.h"

#include <algorithm>

namespace mesh::engine {

RecvChannel::RecvChannel(PeerLink& link_of, std::uint32_t index_of, Record* records)
    : Channel(link_of, Side::Receive, index_of),
      groups({requests.get(), slot_count}),
      express_(&RecvQueuePair::of(link_of.paths().express(index_of))),
      cursor_({.cts_bytes = credit_bytes(link_of.paths().primary_count()),
               .slots = slot_count,
               .channel = index_of}),
      key_count_(link_of.paths().primary_count()),
      first_rail_(link_of.reach().unreachable() ? 0 : link_of.paths().key_rail()),
      records_(records),
      key_set_(link_of.paths().key_set()) {
  post_to(*express_);
}

void RecvChannel::post_to(RecvQueuePair& express) noexcept {
  express_ = &express;
  express.set_cts_bytes(cursor_.cts_bytes());
  cts_per_write_ = express.cts_bytes_max() / cursor_.cts_bytes();
  DCHECK(cts_per_write_ != 0);
}

void RecvChannel::set_credits(const Credits& credits) noexcept {
  credits_ = credits;
  cursor_.set_base(credits.address);
  credits_rkey_ = credits.rkeys[express_->path().far_key];
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
  // The first one of a group answers for its members, so it changes after them.
  for (std::uint64_t sequence = first; sequence != limit; ++sequence)
    request(sequence).fail(failure.load(std::memory_order_relaxed));
  return false;
}

void RecvChannel::write_far_keys(const Request& request, std::uint64_t* words) const noexcept {
  DCHECK(key_count_ > 1);
  Credit credit{.generation = request.generation};
  const std::span<const Path> paths = link.paths().of_tier();
  for (std::uint32_t place = 1; place < paths.size() && request.region != nullptr; ++place)
    credit.rkeys[place] = request.region->keys(paths[place].rail).rkey;
  encode_far(words, credit);
}

// Handles a message that is larger than its receive, which no sender of ours announces.
void RecvChannel::on_overrun(const Request& slot, std::uint64_t said) noexcept {
  link.on_overrun(said, slot.bytes);
}

// Counts a stripe. The record comes just before stripe 0's announcement, on its queue pair; until
// then other stripes only count.
void RecvChannel::on_recorded(Request& slot) noexcept {
  Record& record = records_[&slot - requests.get()];
  slot.landed.add_recorded();
  DCHECK(slot.landed.count() != 0);
  if (!record_says(record, join(slot.landed.count(), round_of(slot.generation)))) return;
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

void RecvChannel::land_in_group(Request& slot, std::uint64_t bytes) noexcept {
  if (!ReceiveGroups::is_open_member(slot)) return;
  DCHECK(bytes <= slot.bytes);
  slot.bytes = bytes;
  ReceiveGroups::land(groups.first_of(slot), 1);
}

// The part that entries of members of one region share; most groups have one region.
struct RecvChannel::OfRegion {
  const void* region = nullptr;
  std::uint64_t key = 0;    // as it stands beside the tag
  std::uint64_t check = 0;  // what key and generation add to the check
  std::uint32_t generation = 0, rail = 0;
};

bool RecvChannel::find_key(const Registration* region, OfRegion* of) noexcept {
  if (region == nullptr) return false;
  of->region = region;
  of->key = join(0, region->keys(of->rail).rkey);
  of->check = half_check({.third = of->key}, of->generation);
  return true;
}

// Fills slots, from this one on, and entries for the members. Returns how many: a member whose slot
// is in use, or that is not within its region, ends it. Apart, so that what its loop needs has room
// in registers.
std::size_t RecvChannel::fill_members(const RecvGroup& group, Request* slot) noexcept {
  DCHECK(slot == requests.get() + cursor_.slot());
  static_assert(kGroupMax <= RecvQueuePair::kCtsMax);
  const RecvGroup all = group;
  std::uint64_t* words = express_->cts_words();
  Request::CreditedWords credited = Request::credited(cursor_.generation(), cursor_.imm());
  OfRegion of{.region = this, .generation = cursor_.generation(), .rail = first_rail_};  // none
  std::size_t i = 0;
  do {
    auto* const region = static_cast<Registration*>(all.regions[i]);
    const auto data = reinterpret_cast<std::uint64_t>(all.data[i]);
    const std::uint64_t bytes = all.bytes[i];
    if (slot->state.load(std::memory_order_relaxed) != RequestState::Free) break;
    if (region != of.region && !find_key(region, &of)) break;
    if (!region->covers(all.data[i], bytes)) break;
    DCHECK(slot->expected == kNoAnnouncement && slot->landed.none());
    const auto tag = static_cast<std::uint32_t>(all.tags[i]);
    slot->address = data;
    slot->bytes = bytes;
    slot->tag = tag;
    slot->region = region;
    slot->set_credited(credited);
    credited += Request::credited_step(RingCursor::kImmStep);
    ReceiveGroups::join(*slot);
    words[0] = data;
    words[1] = bytes;
    words[2] = tag | of.key;
    words[3] = half_check({.first = data, .second = bytes, .third = tag}, of.check);
    words += kCreditHalfBytes / sizeof *words;
    ++slot;
  } while (++i != all.count);
  return i;
}

// Gives back the slots of a group that takes none. Nothing is posted, so no message can come there.
bool RecvChannel::leave_group(std::size_t members) noexcept {
  for (std::size_t i = 0; i < members; ++i) {
    Request& slot = requests[cursor_.slot() + i];
    slot.expected = kNoAnnouncement;
    ReceiveGroups::leave(slot);
  }
  return false;
}

bool RecvChannel::names(const Registration& region) const noexcept {
  const auto is_its = [&region](const Request& request) { return request.region == &region; };
  for (std::uint32_t slot = 0; slot < slot_count; ++slot) {
    const Request& request = requests[slot];
    // acquire: pairs with publish() and with ReceiveGroups::form(); regions were written before.
    const RequestState state = request.state.load(std::memory_order_acquire);
    if (state == RequestState::Submitted && is_its(request)) return true;
    // NCCL learns of no member's message before all members have theirs.
    if (state == RequestState::Group && groups.find_member(request, is_its) != nullptr) return true;
    // A receive that has failed may still have its credit at the sender; the slot is not used again
    // then.
    if (request.expected != kNoAnnouncement && is_its(request)) return true;
  }
  return false;
}

std::uint64_t RecvChannel::awaited(std::uint64_t sequence) const noexcept {
  DCHECK(loop.held());
  const Request& first = request(sequence);
  if (first.state.load(std::memory_order_acquire) != RequestState::Group) return sequence;
  const std::uint64_t given = accepted.load(std::memory_order_relaxed);
  const Request* const waits = groups.find_member(first, [&](const Request& member) {
    return sequence + member.offset >= given || member.expected != kNoAnnouncement;
  });
  DCHECK(waits != nullptr);
  return waits == nullptr ? sequence : sequence + waits->offset;
}

Waiting RecvChannel::waiting(std::uint64_t sequence) noexcept {
  DCHECK(loop.held());
  DCHECK(sequence < submitted.load(std::memory_order_relaxed));
  const std::uint64_t waits = awaited(sequence);
  if (waits < accepted.load(std::memory_order_relaxed))
    return {.reason = WaitReason::Data, .landed = request(waits).landed.count()};
  // It waits for room for the next entry, or for the acknowledgement of entries that were written
  // again.
  if (!express_->has_room(1) || express_->retired() < rewritten_until_)
    return {.reason = WaitReason::Queue, .path = &express_->path()};
  return {.reason = WaitReason::Turn};
}

}  // namespace mesh::engine

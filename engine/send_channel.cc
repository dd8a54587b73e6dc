#include "engine/send_channel.h"

#include "engine/peer_link.h"
#include "engine/progress_loop.h"
#include "engine/registration.h"

#include <algorithm>

namespace mesh::engine {

namespace {
constexpr std::uint32_t kMessagesPerVisit = 8;  // then the other channels have their turn
}

SendChannel::SendChannel(PeerLink& link_of, std::uint32_t index_of, CreditRow* credits)
    : Channel(link_of, Side::Send, index_of), credits_(credits), pending_(slot_count) {}

bool SendChannel::advance(bool in_turn) noexcept {
  // The place is asked for anew in every visit, so nobody keeps it who has come to wait for something else.
  may_wait_for_bytes_ = in_turn || waits_for_bytes_;
  leave_byte_wait();
  accept();
  for (std::uint32_t message = 0; message < kMessagesPerVisit; ++message) {
    if (posting_.request == nullptr) {
      if (pending_count_ == 0) return false;
      if (!match()) {
        loop.counters.credit_stalls.add(1);
        return true;
      }
    }
    if (!post()) return true;
  }
  return posting_.request != nullptr || pending_count_ != 0;
}

void SendChannel::accept() noexcept {
  const std::uint64_t limit = submitted.load(std::memory_order_acquire);
  const Errc broken = failure.load(std::memory_order_relaxed);
  for (; accepted != limit; ++accepted) {
    const auto slot = static_cast<std::uint32_t>(accepted) & slot_mask;
    if (broken != Errc::Ok) {
      requests[slot].fail(broken);
      continue;
    }
    pending_[(pending_head_ + pending_count_++) & slot_mask] = static_cast<std::uint16_t>(slot);
  }
}

std::uint32_t SendChannel::take_pending(std::uint32_t position) noexcept {
  const std::uint32_t slot = pending_[(pending_head_ + position) & slot_mask];
  // Usually the head; otherwise the ones passed over move up by one and keep their order.
  for (std::uint32_t i = position; i > 0; --i) {
    pending_[(pending_head_ + i) & slot_mask] = pending_[(pending_head_ + i - 1) & slot_mask];
  }
  pending_head_ = (pending_head_ + 1) & slot_mask;
  --pending_count_;
  return slot;
}

bool SendChannel::match() noexcept {
  const auto row = static_cast<std::uint32_t>(credit_sequence_) & slot_mask;
  if (!have_credit_) {
    have_credit_ = read_credit(credits_[row], generation_of(credit_sequence_, slot_count, generation_base), &credit_);
    if (!have_credit_) return false;
  }
  for (std::uint32_t position = 0; position < pending_count_; ++position) {
    Request& candidate = requests[pending_[(pending_head_ + position) & slot_mask]];
    if (candidate.tag != credit_.tag) continue;
    take_pending(position);
    posting_.slot = row;
    ++credit_sequence_;
    have_credit_ = false;
    begin(candidate);
    return true;
  }
  return false;
}

void SendChannel::begin(Request& request) noexcept {
  const bool truncated = request.bytes > credit_.bytes;
  if (truncated) {
    // No byte is sent, but the receiver must learn it: the record says so, and both requests fail.
    link.report_truncated(request.bytes, credit_.bytes);
    request.error = Errc::Truncated;
  }
  const std::uint64_t bytes = truncated ? 0 : request.bytes;
  posting_.request = &request;
  posting_.credit = credit_;
  posting_.plan = plan_stripes(bytes, link.policy(), link.bulk_count());
  if (posting_.plan.route == Route::Bulk && link.path_count() > 1) posting_.plan = link.spread(bytes, posting_.table);
  posting_.stripes_left = posting_.plan.count;
  posting_.record = truncated || posting_.plan.count > 1 || bytes > link.policy().wr_bytes;
  const bool rotates = posting_.plan.route == Route::Bulk && posting_.plan.table == nullptr;
  posting_.first_bulk = rotates ? link.next_bulk(posting_.plan.count) : 0;
  request.open_stripes = posting_.plan.count;
  std::fill_n(posted_bytes_.begin(), posting_.plan.count, 0);
  loop.counters.messages_sent.add(1);
  loop.counters.bytes_sent.add(bytes);
}

QueuePair& SendChannel::queue_pair_of(std::uint32_t stripe) noexcept {
  if (posting_.plan.route == Route::Express) return link.express(index);
  return link.bulk(posting_.plan.table == nullptr ? posting_.first_bulk + stripe : posting_.table.position[stripe]);
}

// One work request for every stripe that has room; true when the whole message is posted.
bool SendChannel::post() noexcept {
  bool moved = true;
  while (moved && posting_.stripes_left != 0) {
    moved = false;
    for (std::uint32_t stripe = 0; stripe < posting_.plan.count; ++stripe) {
      if (posted_bytes_[stripe] != UINT64_MAX) moved |= post_stripe(stripe);
    }
    // A large message gives way after each round, so that other channels' messages come in between.
    if (posting_.stripes_left != 0 && moved) return false;
  }
  if (posting_.stripes_left != 0) return false;
  posting_.request = nullptr;
  ++announced_;
  return true;
}

bool SendChannel::post_stripe(std::uint32_t stripe) noexcept {
  QueuePair& queue_pair = queue_pair_of(stripe);
  const std::uint64_t left = posting_.plan.bytes(stripe) - posted_bytes_[stripe];
  const std::uint64_t bytes = std::min(left, link.policy().wr_bytes);
  const bool ends = bytes == left;
  if (!queue_pair.has_room(2)) {
    loop.counters.queue_stalls.add(1);
    return false;
  }
  if (ends && !queue_pair.window_open()) {
    loop.counters.window_stalls.add(1);
    return false;
  }
  if (posting_.plan.route == Route::Bulk && !bytes_fit(queue_pair.path(), bytes)) {
    loop.counters.inflight_stalls.add(1);
    return false;
  }
  may_wait_for_bytes_ = false;
  stage(queue_pair, stripe, bytes);
  posted_bytes_[stripe] = ends ? UINT64_MAX : posted_bytes_[stripe] + bytes;
  if (ends) --posting_.stripes_left;
  return true;
}

// Small requests of others would refill at once what comes free, and a large one would never find its room.
bool SendChannel::bytes_fit(Path& path, std::uint64_t bytes) noexcept {
  if (path.inflight_bytes == 0) return true;
  if (path.byte_waiter != nullptr && path.byte_waiter != this) return false;
  if (path.inflight_bytes + bytes <= path.inflight_bytes_max) return true;
  if (may_wait_for_bytes_) {
    path.byte_waiter = this;
    waits_for_bytes_ = true;
  }
  return false;
}

void SendChannel::leave_byte_wait() noexcept {
  if (!waits_for_bytes_) return;
  waits_for_bytes_ = false;
  for (std::uint32_t i = 0; i < link.path_count(); ++i) {
    if (link.path(i).byte_waiter == this) link.path(i).byte_waiter = nullptr;
  }
}

void SendChannel::stage(QueuePair& queue_pair, std::uint32_t stripe, std::uint64_t bytes) {
  const Request& request = *posting_.request;
  const Path& path = queue_pair.path();
  const std::uint64_t offset = posting_.plan.offset(stripe) + posted_bytes_[stripe];
  const bool ends = posted_bytes_[stripe] + bytes == posting_.plan.bytes(stripe);
  if (ends && stripe == 0 && posting_.record) {
    const std::uint64_t size = request.error == Errc::Truncated ? request.bytes | kRecordTruncated : request.bytes;
    const Record record = encode_record(size, posting_.plan.count, posting_.credit.generation);
    queue_pair.stage_row(&record, sizeof record,
                         {.address = records_.address + posting_.slot * sizeof(Record), .rkey = records_.rkeys[path.index]});
  }
  const std::uint32_t lkey = bytes == 0 ? 0 : request.region->keys(path.lane->index()).lkey;
  queue_pair.stage_data(
      {.source = {.address = request.address + offset, .bytes = static_cast<std::uint32_t>(bytes), .lkey = lkey},
       .target = {.address = posting_.credit.address + offset, .rkey = posting_.credit.rkeys[path.index]},
       .request = posting_.request,
       .imm = pack({.record = posting_.record, .channel = index, .slot = posting_.slot, .generation = posting_.credit.generation}),
       .ends_stripe = ends});
}

void SendChannel::drop_unposted(Errc why) noexcept {
  leave_byte_wait();
  accept();
  while (pending_count_ != 0) {
    Request& request = requests[take_pending(0)];
    if (why == Errc::PeerClosed && request.bytes == 0) {
      request.complete(0);  // nothing was owed to the receiver
    } else {
      request.fail(why);
    }
  }
  if (posting_.request != nullptr) {
    // Part of it may be posted; its stripes never all complete, so it is decided here.
    posting_.request->fail(why);
    posting_.request = nullptr;
    posting_.stripes_left = 0;
  }
}

bool SendChannel::reads(const Registration& region) const noexcept {
  if (outstanding != 0 && failure.load(std::memory_order_relaxed) != Errc::Ok) return true;
  return std::any_of(requests.get(), requests.get() + slot_count, [&region](const Request& request) {
    // acquire: pairs with publish(); the region was written before.
    return request.state.load(std::memory_order_acquire) == RequestState::Submitted && request.region == &region;
  });
}

}  // namespace mesh::engine

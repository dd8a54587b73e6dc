#include "engine/data/send_channel.h"

#include "engine/data/progress_loop_datapath.h"
#include "engine/data/waiting.h"
#include "src/base/check.h"

#include <algorithm>

namespace mesh::engine {

SendChannel::SendChannel(PeerLink& link_of, std::uint32_t index_of, std::byte* credits)
    : Channel(link_of, Side::Send, index_of),
      credits_(credits),
      express_(&link_of.express(index_of)),
      cursor_({.slots = slot_count,
               .row_bytes = credit_bytes(link_of.path_count()),
               .channel = index_of,
               .stripes = 1}),
      path_count_(link_of.path_count()),
      wr_bytes_(link_of.policy().wr_bytes),
      express_bytes_(std::min(link_of.policy().express_bytes, link_of.policy().wr_bytes)) {
  cursor_.set_base(reinterpret_cast<std::uint64_t>(credits));
  choose_express();
}

bool SendChannel::needs_slow_path() const noexcept {
  return posting_.request != nullptr || have_credit_ || waits_for_bytes_ ||
         (begun_ | held_back_) != 0 || failure.load(std::memory_order_relaxed) != Errc::Ok;
}

// Large messages, full queues, tags out of order, the end.
bool SendChannel::advance_slow_path(bool in_turn) noexcept {
  DCHECK(loop.held());
  // The place is asked for anew in every visit, so nobody keeps it who has come to wait for
  // something else.
  may_wait_for_bytes_ = in_turn || waits_for_bytes_;
  leave_byte_wait();
  if (const Errc broken = failure.load(std::memory_order_relaxed); broken != Errc::Ok) {
    drop_unposted(broken);
    return false;
  }
  bool moves = (held_back_ == 0 || post_replays()) && (posting_.request == nullptr || post());
  for (std::uint32_t message = 0; moves && has_new() && message < kMessagesPerVisit; ++message)
    moves = match();
  DCHECK(path_count_ == link.path_count());
  slow_path_ = needs_slow_path();
  return !moves || has_new();
}

// The next credit's send begins, if both are there. False: wants another visit.
bool SendChannel::match() noexcept {
  if (!have_credit_) have_credit_ = read_credit(row(), path_count_, cursor_.generation(), &credit_);
  if (!have_credit_) {
    loop.counters.credit_stalls.add(1);
    return false;
  }
  Request* const request = take_matching();
  if (request == nullptr) return false;
  DCHECK(credit_.generation == cursor_.generation());
  have_credit_ = false;
  begin(*request, cursor_.slot());
  cursor_.step();
  return post();
}

// The first open send of the credit's tag leaves the queue. Null: there is none.
Request* SendChannel::take_matching() noexcept {
  const std::uint64_t limit = submitted.load(std::memory_order_acquire);
  std::uint64_t next = accepted.load(std::memory_order_relaxed);
  if (begun_ == 0 && next != limit && request(next).tag == credit_.tag) {
    accept_one();
    return &request(next);
  }
  while (next != limit && (request(next).begun || request(next).tag != credit_.tag)) ++next;
  if (next == limit) return nullptr;
  Request& found = request(next);
  found.begun = true;
  ++begun_;
  DCHECK(begun_ <= slot_count);
  // Those at the head that have begun are passed now.
  while (has_new() && request(accepted.load(std::memory_order_relaxed)).begun) {
    request(accepted.load(std::memory_order_relaxed)).begun = false;
    DCHECK(begun_ != 0);
    --begun_;
    accept_one();
  }
  return &found;
}

void SendChannel::begin(Request& request, std::uint32_t slot) noexcept {
  DCHECK(posting_.request == nullptr);
  DCHECK(request.state.load(std::memory_order_relaxed) == RequestState::Submitted);
  const bool truncated = request.bytes > credit_.bytes;
  if (truncated) {
    // No byte is sent, but the receiver must learn it: the record says so, and both requests fail.
    link.report_truncated(request.bytes, credit_.bytes);
    request.error = Errc::Truncated;
  }
  const std::uint64_t bytes = truncated ? 0 : request.bytes;
  Posting& posting = posting_;
  posting.request = &request;
  posting.credit = credit_;
  posting.slot = slot;
  posting.plan = plan_stripes(bytes, link.policy(), link.bulk_count());
  if (posting.plan.route == Route::Bulk && link.usable_count() > 1)
    posting.plan = link.spread(bytes, posting.table);
  posting.stripes_left = posting.plan.count;
  DCHECK(posting.plan.count != 0 && posting.plan.count <= kStripesMax);
  // Who is cut into stripes of one work request each says with every one of them how many there
  // are.
  posting.record =
      truncated || posting.plan.count > kStripesTold || posting.plan.largest() > wr_bytes_;
  const bool rotates = posting.plan.route == Route::Bulk && posting.plan.table == nullptr;
  posting.first_bulk = rotates ? link.next_bulk(posting.plan.count) : 0;
  posting.pinned = false;
  request.open_stripes = static_cast<std::uint8_t>(posting.plan.count);
  request.uniform = false;
  request.stripes = posting.plan.count;
  request.generation = posting.credit.generation;
  request.expected = pack({.stripes = posting.record ? 0 : posting.plan.count,
                           .channel = index,
                           .slot = slot,
                           .generation = posting.credit.generation});
  std::fill_n(posting.posted_bytes.begin(), posting.plan.count, 0);
}

QueuePair& SendChannel::queue_pair_of(std::uint32_t stripe) noexcept {
  DCHECK(stripe < posting_.plan.count);
  if (posting_.pinned) [[unlikely]]
    return *posting_.queue_pairs[stripe];
  if (posting_.plan.route == Route::Express) return *express_;
  return link.bulk(posting_.plan.table == nullptr ? posting_.first_bulk + stripe
                                                  : posting_.table.position[stripe]);
}

// Of a message that has met its credit. False: nothing was done.
bool SendChannel::post_uniform() noexcept {
  const UniformPlan plan = uniform_plan(posting_.plan, wr_bytes_);
  const auto begun = [](std::uint64_t bytes) { return bytes != 0; };
  if (plan.count == 0 || posting_.stripes_left != plan.count) return false;
  if (std::any_of(posting_.posted_bytes.begin(), posting_.posted_bytes.begin() + plan.count, begun))
    return false;
  if (!uniform_fits(plan.total_bytes)) return false;
  stage_uniform(*posting_.request,
                {.plan = plan,
                 .first_bulk = posting_.first_bulk,
                 .target = {.address = posting_.credit.address, .rkey = posting_.credit.rkeys[0]}});
  posting_.stripes_left = 0;
  posting_.request = nullptr;
  return true;
}

void SendChannel::plan_usual(std::uint64_t bytes) noexcept {
  usual_plan_ = {.total_bytes = bytes};
  if (path_count_ == 1)
    usual_plan_ = uniform_plan(plan_stripes(bytes, link.policy(), link.bulk_count()), wr_bytes_);
}

// The next send, which the next credit fits, is posted whole. False: nothing was done, it is not
// that simple.
bool SendChannel::post_large(Request& request, verbs::RemoteTarget target) noexcept {
  if (request.bytes != usual_plan_.total_bytes) [[unlikely]]
    plan_usual(request.bytes);
  const UniformPlan plan = usual_plan_;
  if (plan.count == 0 || !uniform_fits(plan.total_bytes)) return false;
  request.open_stripes = static_cast<std::uint8_t>(plan.count);
  request.expected = cursor_.imm() + plan.imm_more;
  stage_uniform(request,
                {.plan = plan, .first_bulk = link.next_bulk(plan.count), .target = target});
  return true;
}

// One work request for every stripe that has room; true when the whole message is posted.
bool SendChannel::post() noexcept {
  if (post_uniform()) return true;
  bool moved = true;
  while (moved && posting_.stripes_left != 0) {
    moved = false;
    for (std::uint32_t stripe = 0; stripe < posting_.plan.count; ++stripe) {
      if (posting_.posted_bytes[stripe] != UINT64_MAX) moved |= post_stripe(stripe);
    }
    // A large message gives way after each round, so that other channels' messages come in between.
    if (posting_.stripes_left != 0 && moved) return false;
  }
  if (posting_.stripes_left != 0) return false;
  posting_.request = nullptr;
  return true;
}

bool SendChannel::post_stripe(std::uint32_t stripe) noexcept {
  QueuePair& queue_pair = queue_pair_of(stripe);
  DCHECK(posting_.posted_bytes[stripe] <= posting_.plan.bytes(stripe));
  const std::uint64_t left = posting_.plan.bytes(stripe) - posting_.posted_bytes[stripe];
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
  posting_.posted_bytes[stripe] = ends ? UINT64_MAX : posting_.posted_bytes[stripe] + bytes;
  DCHECK(posting_.stripes_left != 0);
  if (ends) --posting_.stripes_left;
  return true;
}

// Small requests of others would refill at once what comes free, and a large one would never find
// its room.
bool SendChannel::bytes_fit(Path& path, std::uint64_t bytes) noexcept {
  if (path.inflight_bytes() == 0) return true;
  if (path.byte_waiter != nullptr && path.byte_waiter != this) return false;
  if (path.inflight_bytes() + bytes <= path.inflight_bytes_max) return true;
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

void SendChannel::stage_record(QueuePair& queue_pair, const Request& request) noexcept {
  const std::uint64_t size =
      request.error == Errc::Truncated ? request.bytes | kRecordTruncated : request.bytes;
  DCHECK(request.stripe_count() != 0);
  DCHECK(stripes_of(request.imm()) == 0);
  DCHECK(records_.address != 0);
  const Record record = encode_record(size, request.stripe_count(), request.generation);
  std::uint64_t* const words = queue_pair.stage_row(
      sizeof record, {.address = records_.address + slot_of(request.imm()) * sizeof(Record),
                      .rkey = records_.rkeys[queue_pair.path().index]});
  words[0] = record.words[0];
  words[1] = record.words[1];
}

void SendChannel::stage(QueuePair& queue_pair, std::uint32_t stripe, std::uint64_t bytes) {
  const Request& request = *posting_.request;
  const Path& path = queue_pair.path();
  const std::uint64_t offset = posting_.plan.offset(stripe) + posting_.posted_bytes[stripe];
  DCHECK(queue_pair.path().health.state == PathState::Up);
  DCHECK(offset + bytes <= posting_.credit.bytes);
  DCHECK(posting_.posted_bytes[stripe] + bytes <= posting_.plan.bytes(stripe));
  const bool ends = posting_.posted_bytes[stripe] + bytes == posting_.plan.bytes(stripe);
  if (ends && stripe == 0 && posting_.record) {
    stage_record(queue_pair, request);
  }
  ++outstanding;
  const std::uint32_t lkey = bytes == 0 ? 0 : request.region->keys(path.rail).lkey;
  queue_pair.stage_data(
      {.source = {.address = request.address + offset,
                  .bytes = static_cast<std::uint32_t>(bytes),
                  .lkey = lkey},
       .target = {.address = posting_.credit.address + offset,
                  .rkey = posting_.credit.rkeys[path.index]},
       .request = posting_.request,
       .imm = request.imm(),
       .ends = ends ? Ends::Stripe : Ends::Nothing,
       .stripe = {.offset = posting_.plan.offset(stripe), .bytes = posting_.plan.bytes(stripe)}});
}

void SendChannel::drop_unposted(Errc why) noexcept {
  DCHECK(loop.held());
  slow_path_ = true;
  leave_byte_wait();
  for (; has_new(); accept_one()) {
    Request& unposted = request(accepted.load(std::memory_order_relaxed));
    if (unposted.begun) {
      unposted.begun = false;
      --begun_;
      continue;
    }
    ++dropped_;
    if (why == Errc::PeerClosed && unposted.bytes == 0) {
      unposted.complete(0);  // nothing was owed to the receiver
    } else {
      unposted.fail(why);
    }
  }
  if (posting_.request != nullptr) {
    // Part of it may be posted; its stripes never all complete, so it is decided here.
    posting_.request->fail(why);
    if (withdraw(*posting_.request)) ++dropped_;
    posting_.request = nullptr;
    posting_.stripes_left = 0;
  }
  drop_replays(why);
}

MessageCounts SendChannel::counts() const noexcept {
  return {.messages = posted_messages(), .bytes_received = 0, .close_says = announced()};
}

std::uint64_t SendChannel::posted_messages() const noexcept {
  DCHECK(dropped_ <= accepted.load(std::memory_order_relaxed) + begun_);
  return accepted.load(std::memory_order_relaxed) + begun_ - dropped_ -
         (posting_.request != nullptr ? 1 : 0);
}

bool SendChannel::reads(const Registration& region) const noexcept {
  if (outstanding != 0 && failure.load(std::memory_order_relaxed) != Errc::Ok) return true;
  return std::any_of(
      requests.get(), requests.get() + slot_count, [&region](const Request& request) {
        // acquire: pairs with publish(); the region was written before.
        return request.state.load(std::memory_order_acquire) == RequestState::Submitted &&
               request.region == &region;
      });
}

Waiting SendChannel::waiting(std::uint64_t sequence) noexcept {
  DCHECK(loop.held());
  DCHECK(sequence < submitted.load(std::memory_order_relaxed));
  Request& open = request(sequence);
  const auto own = std::find_if(replays_.begin(), replays_.end(),
                                [&](const Replay& replay) { return replay.lost.request == &open; });
  if (own != replays_.end() && own->waits_for_fence()) return replay_waits(*own);
  // The first that may go out goes before all that is still to be posted.
  const auto first = std::find_if(replays_.begin(), replays_.end(),
                                  [](const Replay& replay) { return !replay.waits_for_fence(); });
  if (own != replays_.end()) return replay_waits(*first);
  if (posting_.request == &open)
    return first == replays_.end() ? posting_waits() : replay_waits(*first);
  if (sequence < accepted.load(std::memory_order_relaxed) || open.begun) return completion_of(open);
  Credit credit = credit_;
  if (!have_credit_ && !read_credit(row(), path_count_, cursor_.generation(), &credit))
    return {.reason = WaitReason::Credit};
  if (first != replays_.end()) return replay_waits(*first);
  if (posting_.request != nullptr) return posting_waits();  // the one before it
  if (credit.tag != open.tag) return {.reason = WaitReason::Tag};
  if (!express_->has_room(1)) return {.reason = WaitReason::Queue, .path = &express_->path()};
  if (!express_->window_open()) return {.reason = WaitReason::Window, .path = &express_->path()};
  return {.reason = WaitReason::Turn};
}

Waiting SendChannel::completion_of(const Request& open) const noexcept {
  for (std::uint32_t i = 0; i < link.path_count(); ++i) {
    for (const auto& queue_pair : link.path(i).queue_pairs) {
      if (queue_pair->carries(open))
        return {.reason = WaitReason::Completion, .path = &link.path(i)};
    }
  }
  return {.reason = WaitReason::Completion};
}

// The first stripe that is not posted whole tells.
Waiting SendChannel::posting_waits() noexcept {
  for (std::uint32_t stripe = 0; stripe < posting_.plan.count; ++stripe) {
    if (posting_.posted_bytes[stripe] == UINT64_MAX) continue;
    const Waiting waiting = room_waits(queue_pair_of(stripe),
                                       posting_.plan.bytes(stripe) - posting_.posted_bytes[stripe]);
    if (waiting.reason != WaitReason::Turn) return waiting;
  }
  return {.reason = WaitReason::Turn};
}

// What a queue pair has no room for when `left` bytes of a stripe are still to be posted. Turn: it
// has room.
Waiting SendChannel::room_waits(QueuePair& queue_pair, std::uint64_t left) const noexcept {
  const Path& path = queue_pair.path();
  if (!queue_pair.has_room(2)) return {.reason = WaitReason::Queue, .path = &path};
  if (left <= wr_bytes_ && !queue_pair.window_open())
    return {.reason = WaitReason::Window, .path = &path};
  const bool counted = queue_pair.index() != 0 && path.inflight_bytes() != 0;
  const bool kept = path.byte_waiter != nullptr && path.byte_waiter != this;
  const bool full = path.inflight_bytes() + std::min(left, wr_bytes_) > path.inflight_bytes_max;
  return counted && (kept || full) ? Waiting{.reason = WaitReason::Inflight, .path = &path}
                                   : Waiting{.reason = WaitReason::Turn};
}

// Where nothing of it is posted, any queue pair may carry it.
Waiting SendChannel::replay_waits(const Replay& replay) noexcept {
  if (replay.waits_for_fence())
    return {.reason = WaitReason::Completion, .path = &replay.queue_pair->path()};
  Credit credit;
  if (!credit_of(*replay.lost.request, &credit)) return {.reason = WaitReason::Credit};
  const std::uint64_t left = replay.lost.span.bytes - replay.posted_bytes;
  if (replay.queue_pair != nullptr) return room_waits(*replay.queue_pair, left);
  Waiting waiting{.reason = WaitReason::Path};
  for (std::uint32_t position = 0; position < link.bulk_count(); ++position) {
    waiting = room_waits(link.bulk(position), left);
    if (waiting.reason == WaitReason::Turn) break;
  }
  return waiting;
}

}  // namespace mesh::engine

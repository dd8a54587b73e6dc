#include "engine/data/send_channel.h"

#include "engine/data/progress_loop_datapath.h"
#include "src/base/check.h"

#include <algorithm>

namespace mesh::engine {

SendChannel::SendChannel(PeerLink& link_of, std::uint32_t index_of, std::byte* credits)
    : Channel(link_of, Side::Send, index_of),
      express_(&SendQueuePair::of(link_of.paths().express(index_of))),
      cursor_({.cts_bytes = credit_bytes(link_of.paths().primary_count()),
               .slots = slot_count,
               .channel = index_of,
               .stripes = 1}),
      credits_(credits),
      key_count_(link_of.paths().primary_count()),
      apart_above_(apart_above(link_of)),
      wr_bytes_(link_of.policy().wr_bytes),
      express_bytes_(
          std::min({link_of.policy().express_bytes, link_of.policy().wr_bytes, apart_above_})),
      tag_match_(*this) {
  cursor_.set_base(reinterpret_cast<std::uint64_t>(credits));
  posting_.spans.reserve(std::min(kStripesMax, key_count_ * link_of.policy().qps));
  choose_express();
}

std::uint64_t SendChannel::apart_above(const PeerLink& link_of) noexcept {
  std::uint64_t least = UINT64_MAX;
  for (const Path& path : link_of.paths().all()) least = std::min(least, path.apart_above);
  return least;
}

bool SendChannel::needs_slow_path() const noexcept {
  return posting_.request != nullptr || have_credit_ || waits_for_bytes_ || held_back_ != 0 ||
         failure.load(std::memory_order_relaxed) != Errc::Ok || (tagged_ && tag_match_.keeps());
}

// Begins a message that has met its credit. Every large message of a usual channel comes here.
[[gnu::always_inline]] inline void SendChannel::begin(Request& request,
                                                      std::uint32_t slot) noexcept {
  DCHECK(posting_.request == nullptr);
  DCHECK(request.state.load(std::memory_order_relaxed) == RequestState::Submitted);
  const bool truncated = request.bytes > credit_.bytes;
  if (truncated) {
    // No byte is sent, but the receiver must learn it: the record says so, and both requests fail.
    link.report_truncated(request.bytes, credit_.bytes);
    request.error = Errc::Truncated;
  }
  posting_.request = &request;
  posting_.credit = credit_;
  cut(truncated ? 0 : request.bytes);
  // The immediate tells how many stripes there are if each announcement brings its stripe whole.
  const auto count = static_cast<std::uint32_t>(posting_.spans.size());
  DCHECK(count != 0 && count <= kStripesMax);
  const bool record =
      truncated || count > kStripesTold || request.bytes > apart_above_ ||
      std::any_of(posting_.spans.begin(), posting_.spans.end(),
                  [this](const Span& span) { return span.stripe.bytes > wr_bytes_; });
  request.cut = {.stripe_bytes = 0,
                 .stripes = static_cast<std::uint8_t>(count),
                 .open = static_cast<std::uint8_t>(count),
                 .uniform = false};
  request.generation = credit_.generation;
  request.expected = pack({.stripes = record ? 0 : count,
                           .channel = index,
                           .slot = slot,
                           .generation = credit_.generation});
}

// Handles all but the plain case: large messages, full queues, tags out of order, the end.
bool SendChannel::advance_slow_path(bool in_turn) noexcept {
  DCHECK(loop.held());
  // The place of a byte waiter is asked for anew in every visit, so no channel keeps it that has
  // come to wait for something else.
  may_wait_for_bytes_ = in_turn || waits_for_bytes_;
  leave_byte_wait();
  if (const Errc broken = failure.load(std::memory_order_relaxed); broken != Errc::Ok) {
    drop_unposted(broken);
    return false;
  }
  bool moves = (held_back_ == 0 || post_replays()) && (posting_.request == nullptr || post());
  for (std::uint32_t left = kMessagesPerVisit; moves && !tagged_ && left != 0 && has_new(); --left)
    moves = match();
  DCHECK(key_set_ == link.paths().key_set());
  if (tagged_) [[unlikely]]
    return advance_tagged(moves);
  slow_path_ = needs_slow_path();
  return !moves || has_new();
}

// advance_slow_path() for a channel that has had more tags than one.
bool SendChannel::advance_tagged(bool moves) noexcept {
  if (moves && (has_new() || tag_match_.needed())) moves = match_by_tag();
  const bool more_tagged = tag_match_.has_new();
  slow_path_ = needs_slow_path() || more_tagged;
  return !moves || has_new() || more_tagged;
}

// Returns true if the message should take bulk queue pairs and the link has only express ones.
bool SendChannel::lacks_queue_pairs(std::uint64_t bytes) const noexcept {
  return link.paths().bulk().empty() && bytes > link.policy().express_bytes;
}

namespace {
// One queue pair carries as much in half a millisecond at 64 Gb/s, and to make the bulk ones takes
// 1 to 4 ms.
constexpr std::uint64_t kNarrowBytesMax = std::uint64_t{4} << 20;
// The work requests on an express queue pair behind which a part of a large message is posted. Its
// path does not count the bytes of parts there, so this bounds them, and what small messages wait
// behind.
constexpr std::uint64_t kNarrowPartsMax = 4;
}  // namespace

bool SendChannel::waits_for_queue_pairs(std::uint64_t bytes) const noexcept {
  return bytes > kNarrowBytesMax && lacks_queue_pairs(bytes);
}

// Begins the next credit's send, if both are there. Returns false if it wants another visit.
bool SendChannel::match() noexcept {
  if (!have_credit_)
    have_credit_ = read_credit(cts_entry(), key_count_, cursor_.generation(), &credit_);
  if (!have_credit_) {
    loop.counters.credit_stalls.add(1);
    return false;
  }
  Request& next = request(accepted.load(std::memory_order_relaxed));
  DCHECK(credit_.generation == cursor_.generation());
  have_credit_ = false;
  if (next.tag != credit_.tag) return match_by_tag();
  const bool posted = one_path() ? post_apart(next) : post_shared(next, credit_);
  if (!posted && lacks_queue_pairs(next.bytes)) {
    link.late().want();
    have_credit_ = waits_for_queue_pairs(next.bytes);
    if (have_credit_) return false;
  }
  accept_one();
  if (!posted) begin(next, cursor_.slot());
  cursor_.step();
  return posted || post();
}

// Begins sends by tag. Reads all credits that are there, so that one without a send stands in
// nobody's way. Returns false if it wants another visit.
bool SendChannel::match_by_tag() noexcept {
  have_credit_ = false;
  tagged_ = true;
  NearCredit near;
  for (; tag_match_.has_room() && read_near(cts_entry(), cursor_.generation(), &near);
       cursor_.step())
    tag_match_.keep({.tag = near.tag, .imm = cursor_.imm()});
  bool readable = true;
  tag_match_.begin();
  for (std::uint32_t message = 0; message < kMessagesPerVisit;) {
    const TagMatch::Pair pair = tag_match_.find();
    if (pair.request == nullptr) return readable;
    // Either a credit that is being written again, or a message that waits for queue pairs.
    const bool is_there = read_kept_credit(pair.imm, &credit_);
    const bool lacks = is_there && lacks_queue_pairs(pair.request->bytes);
    if (lacks) link.late().want();
    if (!is_there || waits_for_queue_pairs(pair.request->bytes)) {
      readable = false;
      tag_match_.pass();
      continue;
    }
    ++message;
    if (pair.queue == nullptr) accept_one();
    tag_match_.take(pair);
    begin(*pair.request, slot_of(pair.imm));
    if (!post()) return false;
  }
  return true;
}

// Cuts the message under way into its stripes, each with its queue pair.
void SendChannel::cut(std::uint64_t bytes) noexcept {
  Posting& posting = posting_;
  DCHECK(posting.spans.empty());
  posting.uniform = false;
  const auto add = [&posting](const StripeSpan& stripe, SendQueuePair& queue_pair) {
    DCHECK(posting.spans.size() < posting.spans.capacity());  // a turn allocates nothing
    posting.spans.push_back(
        {.request = posting.request, .stripe = stripe, .queue_pair = &queue_pair});
  };
  if (posting.plan.count == 0 || posting.plan.total_bytes != bytes) {
    const BulkOrder& bulk = link.paths().bulk();
    posting.plan =
        bulk.empty() ? plan_express(bytes) : plan_stripes(bytes, link.policy(), bulk.count());
  }
  if (posting.plan.route == Route::Express) return add(posting.plan.span(0), *express_);
  if (link.paths().usable_count() > 1) {
    const StripeTable& table = link.paths().shares().spread(bytes);
    for (std::uint32_t i = 0; i < table.count; ++i)
      add(table.stripes[i].span, link.paths().bulk().at(table.stripes[i].position));
    return;
  }
  posting.first_bulk = link.paths().bulk().next(posting.plan.count);
  posting.uniform = one_path() && bytes <= apart_above_ && posting.plan.uniform(wr_bytes_);
  for (std::uint32_t i = 0; i < posting.plan.count; ++i)
    add(posting.plan.span(i), link.paths().bulk().at(posting.first_bulk + i));
}

// Posts a uniform message that has met its credit. Returns false if it did nothing.
bool SendChannel::post_uniform() noexcept {
  if (!posting_.uniform || !try_take_uniform(posting_.plan.total_bytes)) return false;
  DCHECK(posting_.spans.size() == posting_.plan.count);
  stage_uniform(*posting_.request,
                {.plan = posting_.plan,
                 .first_bulk = posting_.first_bulk,
                 .target = {.address = posting_.credit.address, .rkey = posting_.credit.rkeys[0]}});
  posting_.spans.clear();
  posting_.request = nullptr;
  may_wait_for_bytes_ = false;
  return true;
}

SendChannel::Way SendChannel::plan_usual(std::uint64_t bytes) noexcept {
  if (bytes <= express_bytes_) return Way::Middle;
  PathSet& paths = link.paths();
  if (paths.bulk().empty()) {
    link.late().want();
    return Way::Spans;
  }
  usual_plan_ = plan_stripes(bytes, link.policy(), paths.bulk().count());
  usual_way_ = Way::Spans;
  if (!usual_plan_.uniform(wr_bytes_)) return Way::Spans;
  const std::uint32_t count = usual_plan_.count;
  const bool apart = bytes > apart_above_;
  if (one_path()) {
    usual_way_ = apart ? Way::Apart : plan_halves(bytes) ? Way::Halves : Way::Uniform;
  } else if (!apart && (count == 1 || count % paths.usable_count() == 0)) {
    usual_way_ = Way::Shared;
  }
  return usual_way_;
}

namespace {
// The wire waits for messages while its path has less in flight than its port carries in three
// microseconds, which is a round trip: bytes = mbps * 3 / 8.
constexpr std::uint64_t kRoundTripOfMbps = 3, kRoundTripDivisor = 8;
bool is_dry(const Path& path) noexcept {
  return path.inflight_bytes() * kRoundTripDivisor < path.speed_mbps * kRoundTripOfMbps;
}

// Two middle messages that are staged together share a queue pair and its doorbell if the port
// carries both in a third of a microsecond: bytes = mbps / 24. Below that the CPU is what limits.
constexpr std::uint64_t kMbpsPerSharedByte = 24;
}  // namespace

// Returns true if a message of one stripe may go as two on a dry path; halves_ is its plan then.
// Chains over other hosts take turns, so there the second stripe would wait for the first.
bool SendChannel::plan_halves(std::uint64_t bytes) noexcept {
  if (usual_plan_.count != 1 || link.paths()[0].ends.relayed) return false;
  halves_ = plan_bulk(bytes, (bytes + 1) / 2, std::min(link.paths().bulk().count(), 2u));
  return halves_.count == 2 && halves_.uniform(wr_bytes_);
}

// One message alone takes the express queue pair. While the one before it is under way, a message
// takes the next queue pair of the path, so that a NIC that serves them in turn keeps their order.
// Stripes on the path would delay it on a bulk one, so it stays on the express one then. Stripes
// that come later wait behind a few small messages at most.
SendQueuePair* SendChannel::try_take_middle(std::uint64_t bytes) noexcept {
  Path& path = express_->path();
  BulkOrder& bulk = link.paths().bulk();
  const QueuePair& last = *path.queue_pairs[path.last_middle];
  if (last.outstanding() == 0) {
    path.last_middle = 0;
    path.middle_bytes = static_cast<std::uint32_t>(bytes);
    return express_->try_take_small() ? express_ : nullptr;
  }
  const bool joins = last.in_staged_list && path.middle_bytes != 0 &&
                     (path.middle_bytes + bytes) * kMbpsPerSharedByte <= path.speed_mbps;
  std::uint32_t next = joins ? path.last_middle : path.last_middle + 1;
  const bool spills = bytes > near_bytes_ && next <= bulk.last_for_small() && next != 0 &&
                      path.inflight_bytes() == 0;
  if (!spills || !bulk.try_take_uniform()) next = 0;
  path.middle_bytes = joins ? 0 : static_cast<std::uint32_t>(bytes);
  path.last_middle = next;
  if (next != 0) return &SendQueuePair::of(*path.queue_pairs[next]);
  return express_->try_take_small() ? express_ : nullptr;
}

// Posts a middle message that is alone in its visit and has met its credit, as post_at_once().
bool SendChannel::post_middle(Request& request, verbs::RemoteTarget target) noexcept {
  SendQueuePair* const queue_pair = try_take_middle(request.bytes);
  if (queue_pair == nullptr) return false;
  DCHECK(!queue_pair->in_staged_list);
  const SendQueuePair::Small message = small_message(request, target);
  cursor_.step();
  accepted.store(accepted.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  return queue_pair->post_small(message);
}

bool SendChannel::post_next_shared(Request& request) noexcept {
  Credit credit;
  return read_credit(cts_entry(), key_count_, cursor_.generation(), &credit) &&
         post_shared(request, credit);
}

// Stages a middle message that has met its credit. Returns false, and does nothing, if it is empty
// or finds no room.
bool SendChannel::stage_middle(Request& request, verbs::RemoteTarget target) noexcept {
  if (request.bytes == 0) return false;
  SendQueuePair* const queue_pair = try_take_middle(request.bytes);
  if (queue_pair == nullptr) return false;
  queue_pair->stage_small(small_message(request, target));
  return true;
}

// Posts the next send, which fits the next credit, as a whole. Returns false, and does nothing, if
// it goes out as spans or finds no room.
bool SendChannel::post_large(Request& request, verbs::RemoteTarget target) noexcept {
  const StripePlan* chosen = &usual_plan_;
  if (const Way way = way_of(request.bytes); way != Way::Uniform) [[unlikely]] {
    if (way == Way::Shared) return post_next_shared(request);
    if (way == Way::Middle) return stage_middle(request, target);
    if (way != Way::Halves) return false;
    if (is_dry(link.paths()[0])) chosen = &halves_;
  }
  const StripePlan& plan = *chosen;
  if (!try_take_uniform(plan.total_bytes)) return false;
  request.cut.open = static_cast<std::uint8_t>(plan.count);
  request.expected = cursor_.imm() + plan.imm_more();
  stage_uniform(
      request,
      {.plan = plan, .first_bulk = link.paths().bulk().next(plan.count), .target = target});
  return true;
}

// Posts one work request of every stripe that has room. Returns true if all is posted. A large
// message gives way after each round, so that other channels' messages come in between. Its stripes
// take turns to be the first, so that all share the room that comes free, and end together.
bool SendChannel::post() noexcept {
  if (post_uniform()) return true;
  std::vector<Span>& spans = posting_.spans;
  std::erase_if(
      spans, [this](Span& span) { return post_part(span, posting_.credit) == PartOutcome::Ended; });
  if (spans.size() > 1) std::rotate(spans.begin(), spans.begin() + 1, spans.end());
  if (!spans.empty()) return false;
  posting_.request = nullptr;
  return true;
}

SendChannel::PartOutcome SendChannel::post_part(Span& span, const Credit& credit) noexcept {
  SendQueuePair& queue_pair = *span.queue_pair;
  Path& path = queue_pair.path();
  if (const WaitReason reason = room_waits(queue_pair, span.left()); reason != WaitReason::Turn) {
    count_stall(reason);
    if (reason == WaitReason::Inflight) wait_for_bytes(path);
    return PartOutcome::Blocked;
  }
  const Request& request = *span.request;
  const std::uint64_t bytes = std::min(span.left(), wr_bytes_);
  const std::uint64_t offset = span.stripe.offset + span.posted_bytes;
  const bool ends = bytes == span.left();
  DCHECK(path.health.state == PathState::Up);
  DCHECK(offset + bytes <= credit.bytes);
  SendQueuePair::Part part{
      .source = {.address = request.address + offset,
                 .bytes = static_cast<std::uint32_t>(bytes),
                 .lkey = bytes == 0 ? 0 : request.region->keys(path.rail).lkey},
      .target = {.address = credit.address + offset, .rkey = credit.rkeys[path.key_place]},
      .request = span.request,
      .stripe = span.stripe,
      .inline_bytes = bytes == 0 ? 0 : request.region->inline_bytes};
  if (ends && bytes != 0 && request.bytes > path.apart_above) {
    stage_part(queue_pair, part);
    part.source = {};
  }
  // The record goes just before the announcement of the first stripe.
  if (ends && span.stripe.offset == 0 && stripes_of(request.imm()) == 0)
    stage_record(queue_pair, request);
  if (ends) part.ends = Ends::Stripe;
  stage_part(queue_pair, part);
  span.posted_bytes += bytes;
  may_wait_for_bytes_ = false;
  posting_.uniform = false;
  return ends ? PartOutcome::Ended : PartOutcome::Posted;
}

void SendChannel::stage_part(SendQueuePair& queue_pair, const SendQueuePair::Part& part) noexcept {
  ++outstanding;
  queue_pair.stage_part(part);
}

// Returns what a stripe's next work request waits for, with `left` bytes to go. Turn: for nothing.
WaitReason SendChannel::room_waits(SendQueuePair& queue_pair, std::uint64_t left) const noexcept {
  if (!queue_pair.has_room(kStripeEnd)) return WaitReason::Queue;
  if (left <= wr_bytes_ && !queue_pair.window_open()) return WaitReason::Window;
  if (queue_pair.index() == 0) {
    const bool free = left <= express_bytes_ || queue_pair.outstanding() < kNarrowPartsMax;
    return free ? WaitReason::Turn : WaitReason::Queue;
  }
  return bytes_fit(queue_pair.path(), std::min(left, wr_bytes_)) ? WaitReason::Turn
                                                                 : WaitReason::Inflight;
}

void SendChannel::count_stall(WaitReason reason) noexcept {
  if (reason == WaitReason::Queue) loop.counters.queue_stalls.add(1);
  if (reason == WaitReason::Window) loop.counters.window_stalls.add(1);
  if (reason == WaitReason::Inflight) loop.counters.inflight_stalls.add(1);
}

// Claims the next bytes that come free: otherwise small requests of others would refill the path at
// once, and a large one would never find its room.
void SendChannel::wait_for_bytes(Path& path) noexcept {
  if (!may_wait_for_bytes_ || path.byte_waiter != nullptr) return;
  path.byte_waiter = this;
  waits_for_bytes_ = true;
}

void SendChannel::leave_byte_wait() noexcept {
  if (!waits_for_bytes_) return;
  waits_for_bytes_ = false;
  for (Path& path : link.paths().all()) {
    if (path.byte_waiter == this) path.byte_waiter = nullptr;
  }
}

void SendChannel::stage_record(SendQueuePair& queue_pair, const Request& request) noexcept {
  const std::uint64_t size =
      request.error == Errc::Truncated ? request.bytes | kRecordTruncated : request.bytes;
  DCHECK(request.cut.stripes != 0 && stripes_of(request.imm()) == 0);
  const Record record = encode_record(size, request.cut.stripes, round_of(request.generation));
  std::uint64_t* const words = queue_pair.stage_row(
      sizeof record, {.address = records_.address + slot_of(request.imm()) * sizeof(Record),
                      .rkey = records_.rkeys[queue_pair.path().far_key]});
  words[0] = record.words[0];
  words[1] = record.words[1];
}

void SendChannel::drop(Request& unposted, Errc why) noexcept {
  ++dropped_;
  if (why == Errc::PeerClosed && unposted.bytes == 0) {
    unposted.complete(0);  // nothing was owed to the receiver
  } else {
    unposted.fail(why);
  }
}

void SendChannel::drop_unposted(Errc why) noexcept {
  DCHECK(loop.held());
  slow_path_ = true;
  leave_byte_wait();
  for (; has_new(); accept_one()) drop(request(accepted.load(std::memory_order_relaxed)), why);
  while (Request* const unposted = tag_match_.take_unposted()) drop(*unposted, why);
  if (posting_.request != nullptr) {
    // A part of it may be posted, but its stripes never all complete, so it fails here.
    posting_.request->fail(why);
    if (withdraw(*posting_.request)) ++dropped_;
    posting_.request = nullptr;
    posting_.spans.clear();
  }
  drop_replays(why);
}

std::uint64_t SendChannel::posted_messages() const noexcept {
  const std::uint64_t taken = accepted.load(std::memory_order_relaxed) + tag_match_.accepted();
  DCHECK(dropped_ <= taken);
  return taken - dropped_ - (posting_.request != nullptr ? 1 : 0);
}

bool SendChannel::reads(const Registration& region) const noexcept {
  if (outstanding != 0 && failure.load(std::memory_order_relaxed) != Errc::Ok) return true;
  bool read = false;
  for_each_request([&](const Request& request) {
    // acquire: pairs with publish(); the region was written before.
    read = read || (request.state.load(std::memory_order_acquire) == RequestState::Submitted &&
                    request.region == &region);
  });
  return read;
}

Waiting SendChannel::waiting(std::uint64_t sequence) noexcept {
  DCHECK(loop.held());
  Request& open = open_request(sequence);
  const auto own = std::find_if(replays_.begin(), replays_.end(),
                                [&](const Span& replay) { return replay.request == &open; });
  if (own != replays_.end() && waits_for_fence(*own)) return replay_waits(*own);
  // The first replay that may go out goes before all that is still to be posted.
  const auto first = std::find_if(replays_.begin(), replays_.end(),
                                  [](const Span& replay) { return !waits_for_fence(replay); });
  if (own != replays_.end()) return replay_waits(*first);
  if (posting_.request == &open)
    return first == replays_.end() ? posting_waits() : replay_waits(*first);
  const bool taken = is_of_queue(sequence) ? tag_match_.has_accepted(open)
                                           : sequence < accepted.load(std::memory_order_relaxed);
  if (taken) return completion_of(open);
  Credit credit;
  const TagMatch::Kept* const kept = tag_match_.first_of(open.tag);
  if (kept != nullptr && !read_credit_of(kept->imm, &credit)) return {.reason = WaitReason::Credit};
  if (have_credit_) credit = credit_;
  const bool more =
      have_credit_ || read_credit(cts_entry(), key_count_, cursor_.generation(), &credit);
  if (kept == nullptr && !more)
    return {.reason = tag_match_.keeps() ? WaitReason::Tag : WaitReason::Credit};
  if (first != replays_.end()) return replay_waits(*first);
  if (posting_.request != nullptr) return posting_waits();  // the message before it
  if (kept == nullptr && credit.tag != open.tag) return {.reason = WaitReason::Tag};
  if (waits_for_queue_pairs(open.bytes)) return {.reason = WaitReason::QueuePairs};
  if (!express_->has_room(1)) return {.reason = WaitReason::Queue, .path = &express_->path()};
  if (!express_->window_open()) return {.reason = WaitReason::Window, .path = &express_->path()};
  return {.reason = WaitReason::Turn};
}

// Returns what the first stripe that is not posted whole waits for.
Waiting SendChannel::posting_waits() noexcept {
  Waiting waiting{.reason = WaitReason::Turn};
  for (const Span& span : posting_.spans) {
    waiting.left += span.left();
    if (waiting.reason != WaitReason::Turn) continue;
    waiting.reason = room_waits(*span.queue_pair, span.left());
    if (waiting.reason != WaitReason::Turn) waiting.path = &span.queue_pair->path();
  }
  return waiting;
}

}  // namespace mesh::engine

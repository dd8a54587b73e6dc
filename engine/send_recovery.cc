// What a send channel does when a path of its link is lost or is back: who carries its small messages, what becomes of the message
// under way, and the stripes that must go out again. Such a stripe keeps its immediate: the receiver never took the first
// announcement, so it counts this one as if nothing had happened.
#include "engine/send_channel.h"

#include "engine/turn.h"

#include <algorithm>
#include <utility>

namespace mesh::engine {

void SendChannel::choose_express() noexcept {
  express_ = &link.express(index);
  express_path_ = express_->path().index;
  far_ = express_path_ != 0;
  express_rail_ = express_->path().rail;
  held_back_ = (held_back_ & ~kNoPath) | (link.stalled() ? kNoPath : 0);
  odd_ = is_odd();
}

void SendChannel::pin_posting() noexcept {
  if (posting_.request == nullptr || posting_.pinned) return;
  for (std::uint32_t stripe = 0; stripe < posting_.plan.count; ++stripe) posting_.queue_pairs[stripe] = &queue_pair_of(stripe);
  posting_.pinned = true;
}

void SendChannel::leave_path(const Path& path) {
  for (Replay& replay : replays_) {
    if (replay.queue_pair == nullptr || &replay.queue_pair->path() != &path) continue;
    replay.queue_pair = nullptr;
    replay.posted_bytes = 0;
  }
  if (posting_.request == nullptr) return;
  for (std::uint32_t stripe = 0; stripe < posting_.plan.count; ++stripe) {
    if (posting_.posted_bytes[stripe] == UINT64_MAX || &queue_pair_of(stripe).path() != &path) continue;
    // From its beginning: what was posted of it is gone with the queue pair.
    ++outstanding;
    replay({.request = posting_.request,
            .span = {.offset = posting_.plan.offset(stripe), .bytes = posting_.plan.bytes(stripe)},
            .whole_message = false});
    posting_.posted_bytes[stripe] = UINT64_MAX;
    --posting_.stripes_left;
  }
  if (posting_.stripes_left == 0) posting_.request = nullptr;
}

void SendChannel::replay(const LostStripe& lost) {
  odd_ = true;
  if (failure.load(std::memory_order_relaxed) != Errc::Ok) {
    give_up(lost);
    return;
  }
  if (lost.whole_message) lost.request->open_stripes = 1, lost.request->even = false;
  replays_.push_back({.lost = lost});
  ++held_back_;
  loop.activate(*this);
}

bool SendChannel::post_replays() {
  if (link.stalled()) return false;
  while (!replays_.empty()) {
    if (!post_replay(replays_.front())) return false;
    replays_.erase(replays_.begin());
    --held_back_;
  }
  return true;
}

// True: all of it is posted, and what it counted for is counted by its work requests.
bool SendChannel::post_replay(Replay& replay) {
  Request& request = *replay.lost.request;
  std::uint64_t* const words =
      reinterpret_cast<std::uint64_t*>(credits_ + std::size_t{slot_of(request.imm())} * cursor_.row_bytes());
  // The receiver waits for this message and writes its credit again after every fence. What is there may be older still: a row of
  // the slot's former life that a lost path carried late. The message is of the cursor's round or of the one before.
  Credit credit;
  const bool of_this_round = ((cursor_.generation() ^ request.imm()) & kGenerationMask) == 0;
  if (!read_credit(words, path_count_, cursor_.generation() - (of_this_round ? 0 : 1), &credit)) return false;
  for (std::uint32_t tried = 0; replay.queue_pair == nullptr; ++tried) {
    if (tried == link.bulk_count()) return false;
    QueuePair& next = link.bulk(link.next_bulk(1));
    if (next.has_room(2)) replay.queue_pair = &next;
  }
  QueuePair& queue_pair = *replay.queue_pair;
  Path& path = queue_pair.path();
  const StripeSpan& span = replay.lost.span;
  for (bool ends = false; !ends;) {
    const std::uint64_t left = span.bytes - replay.posted_bytes;
    const std::uint64_t bytes = std::min(left, wr_bytes_);
    ends = bytes == left;
    if (!queue_pair.has_room(2) || (ends && !queue_pair.window_open())) return false;
    if (!bytes_fit(path, bytes)) return false;
    const std::uint64_t offset = span.offset + replay.posted_bytes;
    if (ends && span.offset == 0 && stripes_of(request.imm()) == 0) stage_record(queue_pair, request);
    ++outstanding;
    queue_pair.stage_data({.source = {.address = request.address + offset,
                                      .bytes = static_cast<std::uint32_t>(bytes),
                                      .lkey = bytes == 0 ? 0 : request.region->keys(path.rail).lkey},
                           .target = {.address = credit.address + offset, .rkey = credit.rkeys[path.index]},
                           .request = &request,
                           .imm = request.imm(),
                           .ends = !ends                       ? Ends::Nothing
                                   : replay.lost.whole_message ? Ends::Message
                                                               : Ends::Stripe,
                           .stripe = span});
    replay.posted_bytes += bytes;
  }
  --outstanding;
  return true;
}

// The receiver will not get this message whole. Its parts are given up at several places and at several times; the first place
// takes away the immediate that would announce it, and counts it. True: it was the first.
bool SendChannel::withdraw(Request& request) noexcept {
  return std::exchange(request.expected, kNoAnnouncement) != kNoAnnouncement;
}

void SendChannel::give_up(const LostStripe& lost) noexcept {
  --outstanding;
  if (withdraw(*lost.request)) ++given_up_;
}

void SendChannel::drop_replays(Errc why) noexcept {
  for (const Replay& replay : replays_) {
    replay.lost.request->fail(why);
    give_up(replay.lost);
  }
  replays_.clear();
  held_back_ &= kNoPath;
}

}  // namespace mesh::engine

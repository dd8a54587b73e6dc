// What a send channel does when a path of its link is lost or is back: who carries its small
// messages, what becomes of the message under way, and the stripes that must go out again. Such a
// stripe keeps its immediate: the receiver never took the first announcement, so it counts this one
// as if nothing had happened.
#include "engine/data/send_channel.h"

#include "engine/data/progress_loop_datapath.h"

#include "src/base/check.h"

#include <algorithm>
#include <utility>

namespace mesh::engine {

void SendChannel::choose_express() noexcept {
  DCHECK(loop.held());
  express_ = &link.express(index);
  express_path_ = express_->path().index;
  far_ = express_path_ != 0;
  express_rail_ = express_->path().rail;
  held_back_ = (held_back_ & ~kNoPath) | (link.stalled() ? kNoPath : 0);
  slow_path_ = needs_slow_path();
}

void SendChannel::keep_queue_pairs() noexcept {
  if (posting_.request == nullptr || posting_.pinned) return;
  for (std::uint32_t stripe = 0; stripe < posting_.plan.count; ++stripe)
    posting_.queue_pairs[stripe] = &queue_pair_of(stripe);
  posting_.pinned = true;
}

// What is posted of a stripe may still land, so only the fence says when it may begin anew. Of the
// others nothing is posted: they go out at once.
void SendChannel::leave_path(const Path& path) {
  DCHECK(loop.held());
  DCHECK(path.health.state != PathState::Up);
  if (posting_.request == nullptr) return;
  DCHECK(posting_.pinned);
  for (std::uint32_t stripe = 0; stripe < posting_.plan.count; ++stripe) {
    const std::uint64_t posted_bytes = posting_.posted_bytes[stripe];
    QueuePair& queue_pair = queue_pair_of(stripe);
    if (posted_bytes == UINT64_MAX || &queue_pair.path() != &path) continue;
    ++outstanding;  // beside the work requests of it that are posted
    replay({.request = posting_.request,
            .span = {.offset = posting_.plan.offset(stripe), .bytes = posting_.plan.bytes(stripe)},
            .whole_message = false});
    if (posted_bytes != 0)
      replays_.back().posted_bytes = posted_bytes, replays_.back().queue_pair = &queue_pair;
    posting_.posted_bytes[stripe] = UINT64_MAX;
    DCHECK(posting_.stripes_left != 0);
    --posting_.stripes_left;
  }
  if (posting_.stripes_left == 0) posting_.request = nullptr;
}

// What was posted of it is gone with the queue pair.
void SendChannel::fenced(const Path& path) noexcept {
  for (Replay& replay : replays_) {
    if (replay.queue_pair == nullptr || &replay.queue_pair->path() != &path) continue;
    replay.queue_pair = nullptr;
    replay.posted_bytes = 0;
    loop.activate(*this);
  }
}

void SendChannel::replay(const LostStripe& lost) {
  DCHECK(loop.held());
  DCHECK(lost.request->channel == this);
  DCHECK(outstanding != 0);
  DCHECK(lost.span.offset + lost.span.bytes <= lost.request->bytes);
  slow_path_ = true;
  if (failure.load(std::memory_order_relaxed) != Errc::Ok) {
    give_up(lost);
    return;
  }
  if (lost.whole_message) lost.request->open_stripes = 1, lost.request->uniform = false;
  replays_.push_back({.lost = lost});
  ++held_back_;
  DCHECK((held_back_ & ~kNoPath) == replays_.size());
  loop.activate(*this);
}

bool SendChannel::Replay::waits_for_fence() const noexcept {
  DCHECK(posted_bytes == 0 || queue_pair != nullptr);
  return posted_bytes != 0 && queue_pair->path().health.state != PathState::Up;
}

// False: one that may go out finds no room, and what comes after it waits. Nothing waits for one
// that waits for its fence.
bool SendChannel::post_replays() noexcept {
  DCHECK((held_back_ & ~kNoPath) == replays_.size());
  DCHECK(link.stalled() == ((held_back_ & kNoPath) != 0));
  if (link.stalled()) return false;
  for (auto replay = replays_.begin(); replay != replays_.end();) {
    if (replay->waits_for_fence()) {
      ++replay;
      continue;
    }
    if (!post_replay(*replay)) return false;
    replay = replays_.erase(replay);
    --held_back_;
  }
  return true;
}

// The receiver waits for this message and writes its credit again after every fence. What is there
// may be older still: a row of the slot's former life that a lost path carried late. The message is
// of the cursor's round or of the one before.
bool SendChannel::credit_of(const Request& request, Credit* credit) const noexcept {
  std::uint64_t* const words = reinterpret_cast<std::uint64_t*>(
      credits_ + std::size_t{slot_of(request.imm())} * cursor_.row_bytes());
  const bool of_this_round = ((cursor_.generation() ^ request.imm()) & kGenerationMask) == 0;
  return read_credit(words, path_count_, cursor_.generation() - (of_this_round ? 0 : 1), credit);
}

// Has the queue pair room for the replay's next work request?
bool SendChannel::takes_next(QueuePair& queue_pair, const Replay& replay) noexcept {
  DCHECK(replay.posted_bytes <= replay.lost.span.bytes);
  const std::uint64_t left = replay.lost.span.bytes - replay.posted_bytes;
  if (!queue_pair.has_room(2) || (left <= wr_bytes_ && !queue_pair.window_open())) return false;
  return bytes_fit(queue_pair.path(), std::min(left, wr_bytes_));
}

// Null: none has room. It is looked for anew in every visit, so that nothing waits for a queue pair
// whose path may be lost.
QueuePair* SendChannel::queue_pair_for(const Replay& replay) noexcept {
  for (std::uint32_t tried = 0; tried < link.bulk_count(); ++tried) {
    QueuePair& next = link.bulk(link.next_bulk(1));
    if (!takes_next(next, replay)) continue;
    leave_byte_wait();  // for the paths of those that were asked before
    return &next;
  }
  return nullptr;
}

// True: all of it is posted, and what it counted for is counted by its work requests.
bool SendChannel::post_replay(Replay& replay) noexcept {
  Request& request = *replay.lost.request;
  Credit credit;
  if (!credit_of(request, &credit)) return false;
  if (replay.queue_pair == nullptr) replay.queue_pair = queue_pair_for(replay);
  if (replay.queue_pair == nullptr) return false;
  QueuePair& queue_pair = *replay.queue_pair;
  const Path& path = queue_pair.path();
  const StripeSpan& span = replay.lost.span;
  for (bool ends = false; !ends;) {
    if (!takes_next(queue_pair, replay)) return false;
    const std::uint64_t left = span.bytes - replay.posted_bytes;
    const std::uint64_t bytes = std::min(left, wr_bytes_);
    ends = bytes == left;
    const std::uint64_t offset = span.offset + replay.posted_bytes;
    DCHECK(path.health.state == PathState::Up);
    DCHECK(offset + bytes <= credit.bytes);
    if (ends && span.offset == 0 && stripes_of(request.imm()) == 0)
      stage_record(queue_pair, request);
    ++outstanding;
    queue_pair.stage_data(
        {.source = {.address = request.address + offset,
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
  DCHECK(replay.posted_bytes == span.bytes);
  DCHECK(outstanding > 1);  // the replay itself, and its work requests
  --outstanding;
  return true;
}

// The receiver will not get this message whole. Its parts are given up at several places and at
// several times; the first place takes away the immediate that would announce it, and counts it.
// True: it was the first.
bool SendChannel::withdraw(Request& request) noexcept {
  return std::exchange(request.expected, kNoAnnouncement) != kNoAnnouncement;
}

void SendChannel::give_up(const LostStripe& lost) noexcept {
  DCHECK(outstanding != 0);
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
  DCHECK(replays_.empty());
}

}  // namespace mesh::engine

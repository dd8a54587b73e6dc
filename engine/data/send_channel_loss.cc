// The part of a send channel that acts when a path of its link is lost or is back: it chooses what
// carries its small messages, what becomes of the message under way, and the stripes that must go
// out again. Such a stripe keeps its immediate: the receiver never took the first announcement, so
// it counts this one as if nothing had happened.
#include "engine/data/send_channel.h"

#include "engine/data/progress_loop_datapath.h"

#include "src/base/check.h"

#include <algorithm>
#include <utility>

namespace mesh::engine {

// Changes to the keys of the paths that carry the link. A credit that was read holds others: it is
// read again when the receiver has written it anew.
void SendChannel::change_keys() noexcept {
  if (link.paths().key_set() == key_set_) return;
  cursor_.change_keys(key_set_, link.paths().key_set());
  key_set_ = link.paths().key_set();
  have_credit_ = false;
}

void SendChannel::choose_express() noexcept {
  DCHECK(loop.held());
  change_keys();
  usual_plan_ = posting_.plan = {};  // they were for other paths
  usual_way_ = Way::Spans;
  posting_.uniform = false;
  express_ = &SendQueuePair::of(link.paths().express(index));
  express_place_ = express_->path().key_place;
  far_ = express_place_ != 0;
  express_rail_ = static_cast<std::uint8_t>(express_->path().rail);
  // Chains over other hosts take turns for a mebibyte each, so there every small message is near.
  near_bytes_ = express_->path().ends.relayed ? express_bytes_
                                              : std::min(link.policy().near_bytes, express_bytes_);
  held_back_ = (held_back_ & ~kNoPath) | (link.paths().stalled() ? kNoPath : 0);
  slow_path_ = needs_slow_path();
  see_tagged();
}

// A stripe of which a part is posted may still land, so only the fence says when it may begin anew.
// The path's other stripes go out at once.
void SendChannel::leave_path(const Path& path) {
  DCHECK(loop.held());
  DCHECK(path.health.state != PathState::Up);
  if (posting_.request == nullptr) return;
  std::erase_if(posting_.spans, [&](const Span& span) {
    if (&span.queue_pair->path() != &path) return false;
    ++outstanding;  // beside the work requests of it that are posted
    Span lost = span;
    if (lost.posted_bytes == 0) lost.queue_pair = nullptr;
    replay(lost);
    return true;
  });
  posting_.uniform = false;
  if (posting_.spans.empty()) posting_.request = nullptr;
}

// Begins the path's replays anew: what was posted of them is gone with the queue pair.
void SendChannel::fenced(const Path& path) noexcept {
  for (Span& replay : replays_) {
    if (replay.queue_pair == nullptr || &replay.queue_pair->path() != &path) continue;
    replay.queue_pair = nullptr;
    replay.posted_bytes = 0;
    loop.activate(*this);
  }
}

void SendChannel::replay(const Span& lost) {
  DCHECK(loop.held());
  DCHECK(lost.request->channel == this);
  DCHECK(outstanding != 0);
  DCHECK(lost.stripe.offset + lost.stripe.bytes <= lost.request->bytes);
  slow_path_ = true;
  if (failure.load(std::memory_order_relaxed) != Errc::Ok) {
    give_up(lost);
    return;
  }
  replays_.push_back(lost);
  ++held_back_;
  DCHECK((held_back_ & ~kNoPath) == replays_.size());
  loop.activate(*this);
}

bool SendChannel::waits_for_fence(const Span& replay) noexcept {
  DCHECK(replay.posted_bytes == 0 || replay.queue_pair != nullptr);
  return replay.posted_bytes != 0 && replay.queue_pair->path().health.state != PathState::Up;
}

// Posts the stripes that must go out again. Returns false if one that may go out finds no room;
// what comes after it waits. Nothing waits for a stripe that waits for its fence.
bool SendChannel::post_replays() noexcept {
  DCHECK((held_back_ & ~kNoPath) == replays_.size());
  DCHECK(link.paths().stalled() == ((held_back_ & kNoPath) != 0));
  if (link.paths().stalled()) return false;
  for (auto replay = replays_.begin(); replay != replays_.end();) {
    if (waits_for_fence(*replay)) {
      ++replay;
      continue;
    }
    if (!post_replay(*replay)) return false;
    replay = replays_.erase(replay);
    --held_back_;
  }
  return true;
}

bool SendChannel::read_credit_of(std::uint32_t imm, Credit* credit) const noexcept {
  return read_kept_credit(imm, credit);
}

// Returns null if none has room. It is looked for anew in every visit, so that nothing waits for a
// queue pair whose path may be lost.
SendQueuePair* SendChannel::queue_pair_for(const Span& replay) noexcept {
  if (link.paths().bulk().empty()) {
    link.late().want();
    const bool fits = !waits_for_queue_pairs(replay.left()) &&
                      room_waits(*express_, replay.left()) == WaitReason::Turn;
    return fits ? express_ : nullptr;
  }
  for (std::uint32_t tried = 0; tried < link.paths().bulk().count(); ++tried) {
    SendQueuePair& next = link.paths().bulk().at(link.paths().bulk().next(1));
    const WaitReason reason = room_waits(next, replay.left());
    if (reason == WaitReason::Inflight) wait_for_bytes(next.path());
    if (reason != WaitReason::Turn) continue;
    leave_byte_wait();  // for the paths of queue pairs asked before
    return &next;
  }
  return nullptr;
}

// Returns true if all of it is posted; what it counted for is counted by its work requests then.
bool SendChannel::post_replay(Span& replay) noexcept {
  Credit credit;
  if (!read_credit_of(replay.request->imm(), &credit)) return false;
  if (replay.queue_pair == nullptr) replay.queue_pair = queue_pair_for(replay);
  if (replay.queue_pair == nullptr) return false;
  PartOutcome outcome = PartOutcome::Posted;
  while (outcome == PartOutcome::Posted) outcome = post_part(replay, credit);
  if (outcome == PartOutcome::Blocked) return false;
  DCHECK(outstanding > 1);  // the replay itself, and its work requests
  --outstanding;
  return true;
}

// Returns what the replay waits for. Where nothing of it is posted, any queue pair may carry it.
Waiting SendChannel::replay_waits(const Span& replay) noexcept {
  if (waits_for_fence(replay))
    return {.reason = WaitReason::Completion, .path = &replay.queue_pair->path()};
  Credit credit;
  if (!read_credit_of(replay.request->imm(), &credit)) return {.reason = WaitReason::Credit};
  if (link.paths().stalled()) return {.reason = WaitReason::Path};
  Waiting waiting{.reason = WaitReason::QueuePairs};
  SendQueuePair* only = replay.queue_pair;
  if (only == nullptr && link.paths().bulk().empty() && !waits_for_queue_pairs(replay.left()))
    only = express_;
  const std::uint32_t choices = only != nullptr ? 1 : link.paths().bulk().count();
  for (std::uint32_t position = 0; position < choices; ++position) {
    SendQueuePair& queue_pair = only != nullptr ? *only : link.paths().bulk().at(position);
    waiting = {.reason = room_waits(queue_pair, replay.left()),
               .path = &queue_pair.path(),
               .left = replay.left()};
    if (waiting.reason == WaitReason::Turn)
      return {.reason = WaitReason::Turn, .left = replay.left()};
  }
  return waiting;
}

// Gives up a message, which the receiver will not get whole. Its parts are given up at several
// places and several times; the first time takes away the immediate that would announce it, and
// counts it. Returns true at the first time.
bool SendChannel::withdraw(Request& request) noexcept {
  return std::exchange(request.expected, kNoAnnouncement) != kNoAnnouncement;
}

void SendChannel::give_up(const Span& lost) noexcept {
  DCHECK(outstanding != 0);
  --outstanding;
  if (withdraw(*lost.request)) ++given_up_;
}

void SendChannel::drop_replays(Errc why) noexcept {
  for (const Span& replay : replays_) {
    replay.request->fail(why);
    give_up(replay);
  }
  replays_.clear();
  held_back_ &= kNoPath;
  DCHECK(replays_.empty());
}

Waiting SendChannel::completion_of(const Request& open) const noexcept {
  for (const Path& path : link.paths().all()) {
    for (const auto& queue_pair : path.queue_pairs) {
      if (queue_pair->carries(open)) return {.reason = WaitReason::Completion, .path = &path};
    }
  }
  return {.reason = WaitReason::Completion};
}

}  // namespace mesh::engine

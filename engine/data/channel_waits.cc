#include "engine/data/channel_waits.h"

#include "engine/data/turn.h"

#include <fmt/format.h>
#include <algorithm>

namespace mesh::engine {

std::string waiting_text(const Waiting& waiting) {
  const std::string path = waiting.path == nullptr ? "" : " on " + waiting.path->name;
  switch (waiting.reason) {
    case WaitReason::Credit: return "the peer: it has posted no receive for it";
    case WaitReason::Tag: return "the peer: its next receive has another tag";
    case WaitReason::Data:
      return waiting.landed == 0
                 ? "the peer: it has sent nothing for it"
                 : fmt::format("the peer: {} stripes of it have come, not all", waiting.landed);
    case WaitReason::Turn: return "the program: nobody has asked about it for a second";
    case WaitReason::Completion:
      return fmt::format("the network: it is posted{} and not acknowledged", path);
    case WaitReason::Queue: return fmt::format("room in a send queue{}", path);
    case WaitReason::Window:
      return fmt::format("the peer: it has not taken what was announced{}", path);
    case WaitReason::Inflight:
      return fmt::format("the network: the bytes in flight{} are not acknowledged", path);
    case WaitReason::Path: return "a path: none to this peer is up";
  }
  return "an unknown reason";
}

bool QueuePair::carries(const Request& request) const noexcept {
  for (std::uint64_t at = retired_; at != posted_; ++at) {
    if (ring_[at & ring_mask_].request() == &request) return true;
  }
  return false;
}

Waiting SendChannel::waiting(std::uint64_t sequence) noexcept {
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

Waiting RecvChannel::waiting(std::uint64_t sequence) const noexcept {
  if (sequence < accepted.load(std::memory_order_relaxed)) {
    return {.reason = WaitReason::Data, .landed = request(sequence).stripe_count()};
  }
  if (!express_->has_room(1)) return {.reason = WaitReason::Queue, .path = &express_->path()};
  return {.reason = WaitReason::Turn};
}

}  // namespace mesh::engine

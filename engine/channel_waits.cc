#include "engine/channel_waits.h"

#include "engine/turn.h"

#include <fmt/format.h>
#include <algorithm>

namespace mesh::engine {

std::string waiting_text(const Waiting& waiting) {
  const std::string path = waiting.path == nullptr ? "" : " on " + waiting.path->name;
  switch (waiting.reason) {
    case WaitReason::Credit: return "the peer: it has posted no receive for it";
    case WaitReason::Tag: return "the peer: its next receive has another tag";
    case WaitReason::Data:
      return waiting.landed == 0 ? "the peer: it has sent nothing for it"
                                 : fmt::format("the peer: {} stripes of it have come, not all", waiting.landed);
    case WaitReason::Turn: return "the program: nobody has asked about it for a second";
    case WaitReason::Completion: return fmt::format("the network: it is posted{} and not acknowledged", path);
    case WaitReason::Queue: return fmt::format("room in a send queue{}", path);
    case WaitReason::Window: return fmt::format("the peer: it has not taken what was announced{}", path);
    case WaitReason::Inflight: return fmt::format("the network: the bytes in flight{} are not acknowledged", path);
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
  if (posting_.request == &open) return posting_waits();
  if (sequence < accepted.load(std::memory_order_relaxed) || open.begun) return completion_of(open);
  Credit credit = credit_;
  if (!have_credit_ && !read_credit(row(), path_count_, cursor_.generation(), &credit)) return {.reason = WaitReason::Credit};
  if (posting_.request != nullptr) return posting_waits();  // the one before it
  if (credit.tag != open.tag) return {.reason = WaitReason::Tag};
  if (!express_->has_room(1)) return {.reason = WaitReason::Queue, .path = &express_->path()};
  if (!express_->window_open()) return {.reason = WaitReason::Window, .path = &express_->path()};
  return {.reason = WaitReason::Turn};
}

Waiting SendChannel::completion_of(const Request& open) const noexcept {
  for (std::uint32_t i = 0; i < link.path_count(); ++i) {
    for (const auto& queue_pair : link.path(i).queue_pairs) {
      if (queue_pair->carries(open)) return {.reason = WaitReason::Completion, .path = &link.path(i)};
    }
  }
  return {.reason = WaitReason::Completion};
}

// The first stripe that is not posted whole tells.
Waiting SendChannel::posting_waits() noexcept {
  for (std::uint32_t stripe = 0; stripe < posting_.plan.count; ++stripe) {
    if (posting_.posted_bytes[stripe] == UINT64_MAX) continue;
    QueuePair& queue_pair = queue_pair_of(stripe);
    const Path& path = queue_pair.path();
    const std::uint64_t left = posting_.plan.bytes(stripe) - posting_.posted_bytes[stripe];
    if (!queue_pair.has_room(2)) return {.reason = WaitReason::Queue, .path = &path};
    if (left <= wr_bytes_ && !queue_pair.window_open()) return {.reason = WaitReason::Window, .path = &path};
    const bool kept = path.byte_waiter != nullptr && path.byte_waiter != this;
    if (kept || path.inflight_bytes() + std::min(left, wr_bytes_) > path.inflight_bytes_max) {
      return {.reason = WaitReason::Inflight, .path = &path};
    }
  }
  return {.reason = WaitReason::Turn};
}

Waiting RecvChannel::waiting(std::uint64_t sequence) const noexcept {
  if (sequence < accepted.load(std::memory_order_relaxed)) {
    return {.reason = WaitReason::Data, .landed = request(sequence).stripe_count()};
  }
  if (!express_->has_room(1)) return {.reason = WaitReason::Queue, .path = &express_->path()};
  return {.reason = WaitReason::Turn};
}

}  // namespace mesh::engine

#include "engine/data/tag_match.h"

#include <algorithm>
#include <utility>

namespace mesh::engine {

const TagMatch::Kept* TagMatch::first_of(std::uint32_t tag) const noexcept {
  const auto first = std::find_if(kept_.begin(), kept_.end(),
                                  [tag](const Kept& credit) { return credit.tag == tag; });
  return first == kept_.end() ? nullptr : &*first;
}

bool TagMatch::has_accepted(const Request& request) const noexcept {
  const TagQueues* const tags = queues();
  for (std::uint32_t i = 0; tags != nullptr && i < tags->count(); ++i) {
    if (!tags->at(i).has_accepted(request)) return false;
  }
  return true;
}

TagMatch::Pair TagMatch::pair_of(const Kept& credit) const noexcept {
  if (channel_.has_new()) {
    Request& next = channel_.request(channel_.accepted.load(std::memory_order_relaxed));
    if (next.tag == credit.tag) return {.request = &next, .imm = credit.imm};
  }
  TagQueues* const tags = queues();
  TagQueue* const queue = tags == nullptr ? nullptr : tags->with_new(credit.tag);
  if (queue == nullptr) return {};
  return {.request = &queue->first_new(), .queue = queue, .imm = credit.imm};
}

// Returns the index of the first kept credit that can have a send. Nearly always one send is new:
// credits of other tags need no look. A send that is published meanwhile is seen next time.
std::size_t TagMatch::place_of_only_send() const noexcept {
  TagQueues* const tags = queues();
  if (tags == nullptr || !tags->has_one_new() || channel_.has_new()) return 0;
  const TagQueue* const queue = tags->any_with_new();
  const Kept* const first = queue == nullptr ? nullptr : first_of(queue->tag);
  return first == nullptr ? kept_.size() : static_cast<std::size_t>(first - kept_.data());
}

TagMatch::Pair TagMatch::find() noexcept {
  if (!has_new() && !channel_.has_new()) return {};
  const TagQueues* const tags = queues();
  const std::uint64_t published = channel_.submitted.load(std::memory_order_acquire) +
                                  (tags == nullptr ? 0 : tags->published());
  if (std::exchange(seen_, published) != published) next_ = place_of_only_send();
  for (; next_ < kept_.size(); ++next_) {
    Pair pair = pair_of(kept_[next_]);
    if (pair.request == nullptr) continue;
    // NCCL's thread may have published the send while this loop ran, behind a credit of its tag.
    found_ = next_;
    const Kept* const first = first_of(kept_[found_].tag);
    next_ = static_cast<std::size_t>(first - kept_.data());
    pair.imm = first->imm;
    return pair;
  }
  return {};
}

void TagMatch::take(const Pair& found) noexcept {
  DCHECK(next_ < kept_.size() && kept_[next_].imm == found.imm);
  kept_.erase(kept_.begin() + static_cast<std::ptrdiff_t>(next_));
  if (found.queue != nullptr) queues()->accept_one(*found.queue);
}

Request* TagMatch::take_unposted() noexcept {
  TagQueues* const tags = queues();
  TagQueue* const queue = tags == nullptr || !tags->has_new() ? nullptr : tags->any_with_new();
  if (queue == nullptr) return nullptr;
  Request& unposted = queue->first_new();
  tags->accept_one(*queue);
  return &unposted;
}

}  // namespace mesh::engine

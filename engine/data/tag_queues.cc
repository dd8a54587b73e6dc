#include "engine/data/tag_queues.h"

#include <algorithm>

namespace mesh::engine {

bool TagQueue::idle() const noexcept {
  return std::all_of(slots_.begin(), slots_.end(), [](const Request& request) {
    return request.state.load(std::memory_order_relaxed) == RequestState::Free;
  });
}

// acquire: as in Channel::oldest_open()
OpenRequest TagQueue::oldest_open() noexcept {
  const std::uint64_t end = submitted();
  for (std::uint64_t n = end > kTagSlots ? end - kTagSlots : 0; n < end; ++n) {
    if (is_open(request(n).state.load(std::memory_order_acquire))) return {n, true};
  }
  return {end, false};
}

// The new sends have consecutive slots.
bool TagQueue::has_accepted(const Request& request) const noexcept {
  const std::uint64_t end = submitted();
  for (std::uint64_t n = accepted_; n != end; ++n) {
    if (&slots_[n % kTagSlots] == &request) return false;
  }
  return true;
}

TagQueue* TagQueues::of(std::uint32_t tag) {
  const std::uint32_t count = count_.load(std::memory_order_relaxed);
  for (std::uint32_t i = 0; i < count; ++i) {
    if (queues_[(last_ + i) % count]->tag != tag) continue;
    last_ = (last_ + i) % count;
    return queues_[last_].get();
  }
  if (count < kTagsMax) {
    queues_[count] = std::make_unique<TagQueue>();
    queues_[count]->tag = tag;
    for (Request& slot : queues_[count]->slots_) slot.channel = &channel_;
    count_.store(count + 1, std::memory_order_release);
    return queues_[count].get();
  }
  for (const auto& queue : queues_) {
    if (!queue->idle()) continue;
    queue->tag = tag;
    return queue.get();
  }
  return nullptr;
}

TagQueue* TagQueues::with_new(std::uint32_t tag) noexcept {
  const std::uint32_t queues = count();
  for (std::uint32_t i = 0; i < queues; ++i) {
    if (queues_[i]->has_new() && queues_[i]->tag == tag) return queues_[i].get();
  }
  return nullptr;
}

TagQueue* TagQueues::any_with_new() noexcept {
  const std::uint32_t queues = count();
  for (std::uint32_t i = 0; i < queues; ++i) {
    if (queues_[i]->has_new()) return queues_[i].get();
  }
  return nullptr;
}

// The count of all comes last: whoever sees it finds the send.
void TagQueues::publish(TagQueue& queue, Request& slot) noexcept {
  DCHECK(&slot == &queue.next_slot());
  // acquired where regions are looked for, as in Channel::publish()
  slot.state.store(RequestState::Submitted, std::memory_order_release);
  queue.submitted_.store(queue.submitted_.load(std::memory_order_relaxed) + 1,
                         std::memory_order_release);  // acquired in TagQueue::has_new()
  published_.store(published_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
}

}  // namespace mesh::engine

#pragma once
// Queues for a channel's sends whose tag is not that of its first send. Each such tag has a queue
// with slots of its own, so that sends whose receives are late take no slot from another tag. A
// channel with one tag only, as nearly all have, has none of this. Thread: NCCL's starts sends and
// makes queues, the loop (progress lock) takes the sends over, and whoever looks at requests reads
// all. Bounds: kTagSlots open sends of a tag, kTagsMax tags with open sends.

#include "engine/data/request.h"
#include "engine/data/stall_watch.h"
#include "src/base/check.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

namespace mesh::engine {

// NCCL has NCCL_STEPS sends of a rank open (device.h).
inline constexpr std::uint32_t kTagSlots = 8;
// A tag is a rank of a host that shares a connection; today's largest NVLink domains have 72 GPUs.
inline constexpr std::uint32_t kTagsMax = 128;

class TagQueue {
 public:
  // ---- NCCL's thread.
  // The slot for the next send; it is taken while it is not Free.
  Request& next_slot() noexcept {
    return slots_[submitted_.load(std::memory_order_relaxed) % kTagSlots];
  }
  bool idle() const noexcept;  // no send of it is open

  // ---- Loop.
  bool has_new() const noexcept { return submitted_.load(std::memory_order_acquire) != accepted_; }
  Request& first_new() noexcept { return slots_[accepted_ % kTagSlots]; }
  bool has_accepted(const Request& request) const noexcept;  // for open requests only

  // ---- Any thread.
  std::uint64_t submitted() const noexcept { return submitted_.load(std::memory_order_acquire); }
  Request& request(std::uint64_t sequence) noexcept { return slots_[sequence % kTagSlots]; }

  // Returns the first open send, by its number among the queue's sends.
  OpenRequest oldest_open() noexcept;

  OldestRequest oldest;   // control mutex
  std::uint32_t tag = 0;  // NCCL's thread, while it is idle; published with the first send

 private:
  friend class TagQueues;
  std::atomic<std::uint64_t> submitted_{0};
  std::uint64_t accepted_ = 0;
  std::array<Request, kTagSlots> slots_;
};

class TagQueues {
 public:
  explicit TagQueues(Channel& channel) : channel_(channel) {}

  // NCCL's thread. Returns the tag's queue, made or taken over from a tag without open sends if
  // need be, or null if every one is in use. Allocates once for each further tag, and may throw.
  TagQueue* of(std::uint32_t tag);
  void publish(TagQueue& queue, Request& slot) noexcept;
  std::uint64_t published() const noexcept {
    return published_.load(std::memory_order_acquire);
  }  // any thread

  // ---- Loop.
  TagQueue* with_new(
      std::uint32_t tag) noexcept;  // the tag's queue, if it has a new send; else null
  TagQueue* any_with_new() noexcept;
  bool has_new() const noexcept { return published() != accepted_; }
  bool has_one_new() const noexcept { return published() == accepted_ + 1; }
  std::uint64_t accepted() const noexcept { return accepted_; }
  void accept_one(TagQueue& queue) noexcept {
    DCHECK(queue.has_new());
    ++queue.accepted_;
    ++accepted_;
  }

  // Any thread.
  std::uint32_t count() const noexcept { return count_.load(std::memory_order_acquire); }
  TagQueue& at(std::uint32_t i) const noexcept {
    DCHECK(i < count());
    return *queues_[i];
  }

  OldestRequest oldest_of_first;  // control mutex: of the first tag, which has no queue here

 private:
  Channel& channel_;
  std::array<std::unique_ptr<TagQueue>, kTagsMax> queues_;
  std::atomic<std::uint32_t> count_{0};      // released when the queue is in its place
  std::atomic<std::uint64_t> published_{0};  // NCCL releases, the loop acquires
  std::uint64_t accepted_ = 0;               // loop
  std::uint32_t last_ = 0;                   // NCCL's thread: index of the queue asked for last
};

}  // namespace mesh::engine

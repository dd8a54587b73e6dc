#pragma once
// A queue between exactly two threads that neither of them waits on: full and empty are answers.
// Thread: try_push one producer, try_pop one consumer, empty either (a hint for the other side).
// Bound: the capacity given at construction, rounded up to a power of two; nothing is allocated afterwards.

#include <atomic>
#include <bit>
#include <cstddef>
#include <memory>
#include <type_traits>

namespace mesh {

template <typename T>
class SpscRing {
  static_assert(std::is_trivially_copyable_v<T>, "an entry is copied byte for byte and never destroyed");

 public:
  explicit SpscRing(std::size_t capacity)
      : mask_(std::bit_ceil(capacity < 2 ? std::size_t{2} : capacity) - 1), entries_(std::make_unique<T[]>(mask_ + 1)) {}
  SpscRing(const SpscRing&) = delete;
  SpscRing& operator=(const SpscRing&) = delete;

  bool try_push(const T& entry) noexcept {
    const std::size_t tail = tail_.load(std::memory_order_relaxed);
    if (tail - head_seen_ > mask_) {
      head_seen_ = head_.load(std::memory_order_acquire);  // released in try_pop: the entry has been read
      if (tail - head_seen_ > mask_) return false;
    }
    entries_[tail & mask_] = entry;
    tail_.store(tail + 1, std::memory_order_release);  // acquired in try_pop
    return true;
  }

  bool try_pop(T& entry) noexcept {
    const std::size_t head = head_.load(std::memory_order_relaxed);
    if (head == tail_seen_) {
      tail_seen_ = tail_.load(std::memory_order_acquire);  // released in try_push: the entry is whole
      if (head == tail_seen_) return false;
    }
    entry = entries_[head & mask_];
    head_.store(head + 1, std::memory_order_release);  // acquired in try_push
    return true;
  }

  bool empty() const noexcept { return head_.load(std::memory_order_acquire) == tail_.load(std::memory_order_acquire); }
  std::size_t capacity() const noexcept { return mask_ + 1; }

 private:
  // Each side's words on a line of their own; 128 because adjacent lines are fetched in pairs.
  static constexpr std::size_t kLineBytes = 128;
  const std::size_t mask_;
  const std::unique_ptr<T[]> entries_;
  alignas(kLineBytes) std::atomic<std::size_t> tail_{0};
  std::size_t head_seen_ = 0;  // producer's copy of head_, so that it reads the consumer's line only when it looks full
  alignas(kLineBytes) std::atomic<std::size_t> head_{0};
  std::size_t tail_seen_ = 0;
};

}  // namespace mesh

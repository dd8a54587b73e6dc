#pragma once
// Truthful counters. Written by one thread each (the loop's holder), readable by any at any time.
// Thread: writer as noted, readers any. Units: counts, or bytes where the name says so.

#include <atomic>
#include <cstdint>

namespace mesh {

// A counter with one writer at a time: no locked instruction, no torn read.
class Counter {
 public:
  void add(std::uint64_t n) noexcept { value_.store(value_.load(std::memory_order_relaxed) + n, std::memory_order_relaxed); }
  std::uint64_t get() const noexcept { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

// One path of one peer link, as this side counts it. Written by the loop's holder.
struct PathCounters {
  Counter bytes_sent, work_requests, doorbells, send_completions, announcements;
};

// One context's loop.
struct LoopCounters {
  Counter turns, empty_turns, messages_sent, messages_received, bytes_sent, bytes_received, credits_sent, credit_stalls,
      queue_stalls, window_stalls, inflight_stalls, late_announcements, errors;
};

// A copy of the engine's figures at one moment.
struct EngineStats {
  std::uint64_t contexts = 0, links = 0, channels = 0, queue_pairs = 0, completion_queues = 0, registrations = 0;
  std::uint64_t messages_sent = 0, messages_received = 0, bytes_sent = 0, bytes_received = 0;
  std::uint64_t work_requests = 0, doorbells = 0, send_completions = 0, announcements = 0;
  std::uint64_t late_announcements = 0, revokes = 0, errors = 0;
};

}  // namespace mesh

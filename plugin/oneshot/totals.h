#pragma once
// The all-reduces that the groups of this process have begun since its engine was made, for the
// page of metrics. Thread: any. Bound: two counters.

#include <atomic>
#include <cstdint>

namespace mesh::oneshot {

struct Totals {
  std::atomic<std::uint64_t> all_reduces{0}, bytes{0};

  static Totals& instance() noexcept {
    static Totals only;
    return only;
  }
  void count(std::uint64_t message_bytes) noexcept {
    all_reduces.fetch_add(1, std::memory_order_relaxed);
    bytes.fetch_add(message_bytes, std::memory_order_relaxed);
  }
  void restart() noexcept {
    all_reduces.store(0, std::memory_order_relaxed);
    bytes.store(0, std::memory_order_relaxed);
  }
};

}  // namespace mesh::oneshot

#pragma once
// A completion queue. The holder of the NIC's turn pushes, and one poller at a time pops. Overflow
// kills the queue with a line in the log, because posting more than it can report is the user's
// mistake. Thread: push under the turn lock; pop from any (a second poller gets nothing). Bound:
// the entries that were asked for.

#include <infiniband/verbs.h>

#include "src/soft/spin_lock.h"
#include "src/soft/zeroed_array.h"

#include <atomic>
#include <cstdint>

namespace mesh::soft {

class Nic;
struct QueuePair;

struct CompletionEntry {
  ibv_wc wc{};
  QueuePair* qp = nullptr;  // null: its queue pair was destroyed, and the entry is skipped
  // Send: polling this entry frees the slots of the send queue up to this running count.
  std::uint64_t end = 0;
  bool is_receive = false;
};

class CompletionQueue {
 public:
  CompletionQueue(ibv_context* context, Nic* nic, int entries);

  ibv_cq verbs{};  // the first member, so that the user's pointer is ours
  Nic* const nic;
  int users = 0;  // queue pairs that use it; under the turn lock

  void push(const CompletionEntry& entry) noexcept;
  int pop(int count, ibv_wc* wc) noexcept;    // -1: the queue has overflowed
  void forget(const QueuePair* qp) noexcept;  // under the turn lock; afterwards no entry names qp

 private:
  ZeroedArray<CompletionEntry> entries_;
  std::uint64_t mask_;
  std::uint64_t limit_;
  std::atomic<bool> dead_{false};
  SpinLock pop_lock_;
  alignas(64) std::atomic<std::uint64_t> in_{0};   // released in push(), acquired in pop()
  alignas(64) std::atomic<std::uint64_t> out_{0};  // released in pop(), acquired in push()
};

}  // namespace mesh::soft

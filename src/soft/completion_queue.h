#pragma once
// The queues by which a device context reports. A completion queue: the holder of the NIC's turn
// pushes, and one poller at a time pops. Overflow kills the queue with a line in the log, because
// posting more than it can report is the user's mistake. Thread: push under the turn lock; pop from
// any (a second poller gets nothing). Bound: the entries that were asked for.

#include "src/base/unique_fd.h"
#include "src/soft/board.h"
#include "src/soft/spin_lock.h"
#include "src/verbs/provider.h"

#include <infiniband/verbs.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <memory>
#include <mutex>
#include <new>
#include <type_traits>

namespace mesh::soft {

// An array of fixed size whose bytes are zero at first, and whose pages nobody touches until they
// are used: most pages of an idle queue pair's queues never are. Allocates in its constructor only,
// which may throw std::bad_alloc. Thread: its owner's.
template <typename T>
class ZeroedArray {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);
  static_assert(alignof(T) <= alignof(std::max_align_t));

 public:
  ZeroedArray() = default;
  explicit ZeroedArray(std::size_t count)
      : data_(static_cast<T*>(std::calloc(count, sizeof(T)))), size_(count) {
    if (data_ == nullptr) throw std::bad_alloc();
  }

  std::size_t size() const noexcept { return size_; }
  T& operator[](std::size_t at) noexcept { return data_.get()[at]; }
  const T& operator[](std::size_t at) const noexcept { return data_.get()[at]; }

 private:
  struct Free {
    void operator()(T* data) const noexcept { std::free(data); }
  };
  std::unique_ptr<T, Free> data_;
  std::size_t size_ = 0;
};

class Nic;
struct QueuePair;

// A channel that completion queues report to. Its descriptor, an epoll, is readable when a queue
// has reported, or when a peer has rung for a queue pair of an armed queue of this process: that
// event may come before its completion, and the thread that it wakes turns the NIC when it polls.
// Thread: any. Bound: any number of events; several may be taken as one.
class CompletionChannel {
 public:
  CompletionChannel(ibv_context* context, int waiters_fd);

  ibv_comp_channel verbs{};   // the first member, so that the user's pointer is ours
  std::atomic<int> users{0};  // completion queues

  bool valid() const noexcept { return verbs.fd >= 0; }
  void push() noexcept;
  bool pop() noexcept;

 private:
  UniqueFd reported_, epoll_;
};

struct CompletionEntry {
  ibv_wc wc{};
  QueuePair* qp = nullptr;  // null: its queue pair was destroyed, and the entry is skipped
  // Send: polling this entry frees the slots of the send queue up to this running count.
  std::uint64_t end = 0;
  bool is_receive = false;
};

class CompletionQueue {
 public:
  // Without a channel the queue reports nothing.
  CompletionQueue(ibv_context* context, Nic* nic, int entries, CompletionChannel* channel);
  ~CompletionQueue();

  ibv_cq verbs{};  // the first member, so that the user's pointer is ours
  Nic* const nic;
  int users = 0;  // queue pairs that use it; under the turn lock

  void push(const CompletionEntry& entry) noexcept;
  // The next push reports, or a peer's next ring for a queue pair that uses the queue.
  void arm(NicBoard& bells) noexcept;
  bool can_report() const noexcept { return channel_ != nullptr; }
  void note_user(std::uint32_t index) noexcept;  // a queue pair; under the turn lock
  int pop(int count, ibv_wc* wc) noexcept;       // -1: the queue has overflowed
  void forget(const QueuePair* qp) noexcept;  // under the turn lock; afterwards no entry names qp

 private:
  // A completion as a queue keeps it: queues have ten thousands of entries.
  struct Slot {
    QueuePair* qp = nullptr;
    std::uint64_t end = 0, wr_id = 0;
    std::uint32_t byte_len = 0, imm = 0, qp_num = 0, src_qp = 0;
    std::uint8_t status = 0, opcode = 0, flags = 0;
    bool is_receive = false;

    explicit Slot(const CompletionEntry& entry) noexcept;
    ibv_wc wc() const noexcept;
  };
  static_assert(sizeof(Slot) == 48);

  void publish(std::uint64_t in) noexcept;
  void report() noexcept;

  CompletionChannel* const channel_;
  std::unique_ptr<Marks> queue_pairs_;  // that use the queue; null: no channel
  std::atomic<bool> armed_{false};      // seq_cst, as in_ then is: arm() pairs with publish()
  ZeroedArray<Slot> entries_;
  std::uint64_t mask_;
  std::uint64_t limit_;
  std::atomic<bool> dead_{false};
  SpinLock pop_lock_;
  alignas(64) std::atomic<std::uint64_t> in_{0};   // released in publish(), acquired in pop()
  alignas(64) std::atomic<std::uint64_t> out_{0};  // released in pop(), acquired in push()
};

inline constexpr std::size_t kEventsMax = 8192;  // two for each queue pair of a NIC

// The events of one open device context, with a descriptor that is readable while there are any.
// Thread: any. Bound: kEventsMax; further events are dropped, because the states that they report
// can be queried.
class EventQueue {
 public:
  EventQueue();

  int fd() const noexcept { return fd_.get(); }
  void push(const verbs::DeviceEvent& event) noexcept;
  bool pop(verbs::DeviceEvent* event) noexcept;
  void forget_qp(std::uint32_t qp_num) noexcept;  // afterwards no event names it

 private:
  void drain_locked() noexcept;  // empties the descriptor if there are no events

  UniqueFd fd_;
  std::mutex mutex_;
  std::deque<verbs::DeviceEvent> events_;
};

}  // namespace mesh::soft

#pragma once
// The completion queue of relayed queue pairs at one end. Receives of the real queue pairs complete
// into one real queue, whose completions are passed on as they are; their sends complete into a
// second real queue, which nobody else sees. Thread: any; the lock is this queue's. Bounds:
// kEndQueuePairsMax queue pairs, and the real queues' entries.

#include "src/base/yielding.h"
#include "src/relay/end_queue_pair.h"
#include "src/verbs/handle.h"

#include <cstdint>
#include <vector>

namespace mesh::relay {

class EndCompletionQueue {
 public:
  EndCompletionQueue(verbs::CqHandle sends, verbs::CqHandle receives)
      : sends_(std::move(sends)), receives_(std::move(receives)) {}
  EndCompletionQueue(const EndCompletionQueue&) = delete;
  EndCompletionQueue& operator=(const EndCompletionQueue&) = delete;

  ibv_cq verbs{};  // the first member, so that the user's pointer is ours

  bool in_use() noexcept;

  // Adds a queue pair to the queue with which it was made. Returns false if it is one too many, or
  // if there is no room for the completions that its sends can leave here. Throws bad_alloc, and
  // has then changed nothing.
  bool add_sender(EndQueuePair& queue_pair);
  bool add_receiver(EndQueuePair& queue_pair);
  // Removes the queue pair. Afterwards no poll touches it.
  void remove_sender(EndQueuePair& queue_pair) noexcept;
  void remove_receiver(EndQueuePair& queue_pair) noexcept;

  int poll(int count, ibv_wc* wc) noexcept;

  ShortLock& lock() noexcept { return lock_; }  // guards the queue pairs that send here too
  ibv_cq* real_sends() const noexcept { return sends_.get(); }
  ibv_cq* real_receives() const noexcept { return receives_.get(); }

 private:
  int poll_receives(int count, ibv_wc* wc) noexcept;
  int poll_sends(int count, ibv_wc* wc) noexcept;
  bool take_real_sends() noexcept;  // false: the real queue is dead
  void on_flushed(std::uint32_t qp_num) noexcept;

  verbs::CqHandle sends_, receives_;
  ShortLock lock_;
  std::vector<EndQueuePair*> senders_;  // by index; null: free
  // By index: the first life of the next queue pair there. A device may keep completions of one
  // that is destroyed.
  std::vector<std::uint32_t> lives_;
  std::vector<EndQueuePair*> receivers_;
  std::uint32_t reserved_ = 0;
  std::uint32_t next_ = 0;    // the sender whose completions come first
  bool sends_first_ = false;  // the last poll was full and took receives first
};

}  // namespace mesh::relay

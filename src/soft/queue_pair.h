#pragma once
// One reliable connected queue pair: its send queue with the ring that its target pulls from, its
// receive queue, and the peer's ring that it pulls from. Its NIC owns it. Thread: marked at each
// part; "turn" is the holder of the NIC's turn lock, "poster" the holder of the part's own lock.
// Bound: the depths that it was created with.

#include <infiniband/verbs.h>

#include "src/base/check.h"
#include "src/soft/board.h"
#include "src/soft/completion_queue.h"
#include "src/soft/late_writes.h"
#include "src/soft/ring.h"
#include "src/soft/spin_lock.h"

#include <sys/types.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <memory>

namespace mesh::soft {

class Nic;

// The part of a work request that post_send keeps for its completion. The poster writes it, and the
// turn reads it once it is posted.
struct SendSlot {
  std::uint64_t wr_id = 0;
  std::uint64_t posted_at_ns = 0;  // known only with a wire model or faults
  std::uint64_t fault_delay_ns = 0;
  RingSge* sge = nullptr;   // in SendQueue::sges
  std::uint32_t bytes = 0;  // at most kWorkRequestBytesMax
  ibv_wr_opcode opcode = IBV_WR_SEND;
  // Other than success: the work request is never sent and completes with this status.
  ibv_wc_status local_error = IBV_WC_SUCCESS;
  std::uint8_t sges = 0;
  bool is_inline = false;
  bool signaled = false;
  bool vanishes = false;  // it completes with local_error, but only after all its tries
};

// Gives a queue its slots and their entries; depth: its work requests.
template <typename Queue>
void make_slots(Queue& queue, std::uint32_t depth, std::uint32_t sges_each) {
  queue.depth = depth;
  const std::size_t count = std::bit_ceil(std::max(depth, 4u));
  queue.slots = decltype(queue.slots)(count);
  queue.sges = ZeroedArray<RingSge>(count * std::max(sges_each, 1u));
}
// Returns a slot with its place for scatter and gather entries.
template <typename Queue>
auto& slot_to_fill(Queue& queue, std::uint64_t number) noexcept {
  const std::size_t at = number & (queue.slots.size() - 1);
  auto& slot = queue.slots[at];
  slot.sge = &queue.sges[at * (queue.sges.size() / queue.slots.size())];
  return slot;
}

struct SendQueue {
  SpinLock lock;
  ZeroedArray<SendSlot> slots;  // a power of two
  ZeroedArray<RingSge> sges;    // as many for each slot as a work request may have
  std::uint32_t depth = 0;
  bool poisoned = false;  // poster: a work request failed locally; nothing after it is published
  bool noted = false;     // poster: NicCore::posting knows that something may be outstanding
  std::atomic<std::uint64_t> posted{0};  // released by the poster after the ring's tail
  std::atomic<std::uint64_t> freed{0};   // released by poll_cq, acquired by the poster
  // The turn's:
  std::uint64_t completed = 0;
  std::uint64_t read_done = 0;       // bytes of the READ at `completed` that have arrived
  std::uint64_t streamed = 0;        // requests whose source has gone into the data stream
  std::uint64_t streamed_bytes = 0;  // bytes of the request at `streamed` that have gone there
  SendSlot& slot(std::uint64_t number) noexcept { return slots[number & (slots.size() - 1)]; }
  SendSlot& to_fill(std::uint64_t number) noexcept { return slot_to_fill(*this, number); }
};

struct ReceiveSlot {
  std::uint64_t wr_id = 0;
  RingSge* sge = nullptr;  // in ReceiveQueue::sges
  std::uint32_t sges = 0;
};

struct ReceiveQueue {
  SpinLock lock;
  ZeroedArray<ReceiveSlot> slots;
  ZeroedArray<RingSge> sges;
  std::uint32_t depth = 0;
  std::atomic<std::uint64_t> posted{0};  // released by the poster, acquired by the turn
  std::atomic<std::uint64_t> freed{0};   // released by poll_cq, acquired by the poster
  std::uint64_t taken = 0;               // the turn's
  ReceiveSlot& slot(std::uint64_t number) noexcept { return slots[number & (slots.size() - 1)]; }
  ReceiveSlot& to_fill(std::uint64_t number) noexcept { return slot_to_fill(*this, number); }
};

// The ring for our requests, and the peer. Changed under turn lock and send lock.
struct Outgoing {
  std::shared_ptr<Ring> ring;
  std::shared_ptr<Peer> peer;
  int peer_nic = 0;
  std::uint32_t peer_index = 0;
};

// The ring with the peer's requests, and the peer. Only the turn uses it.
struct Incoming {
  std::shared_ptr<Ring> ring;
  std::shared_ptr<Peer> peer;
  int peer_nic = 0;
  std::uint32_t peer_index = 0;
  pid_t pid = 0;                  // 0: the peer is in this process
  std::uint64_t next = 0;         // the request to execute
  std::uint64_t done_bytes = 0;   // bytes of request `next` that are done
  std::uint64_t retry_at_ns = 0;  // the receiver is not ready until then
  std::uint32_t rnr_tries = 0;
  // The request's source has not come through the stream yet, or its answer has no room there.
  bool waits_for_stream = false;
  // FaultKind::OutOfOrder: the next requests that have landed, a bit each by number modulo 64;
  // until when the next one is held; and 1 + the number of the one for which that was decided.
  std::uint64_t landed_early = 0;
  std::uint64_t held_until_ns = 0;
  std::uint64_t held_decided = 0;
  std::uint64_t repeats_until = 0;   // requests before this one that have landed early land again
  std::unique_ptr<LateWrites> late;  // null: there never was one
};

// The attributes that modify_qp has set. Changed under turn lock and send lock.
struct Attributes {
  int access = 0;
  ibv_gid dest_gid{};
  std::uint32_t dest_qp_num = 0;
  std::uint32_t mtu = 4096;
  std::uint32_t rq_psn = 0, sq_psn = 0;
  // Our key of the partition that both ends must be in. InfiniBand: the port's LID when the queue
  // pair was connected.
  std::uint16_t pkey = 0xffff, own_lid = 0;
  // verbs::GidType of the address that it sends from: a port drops packets of another RoCE version.
  std::uint8_t gid_type = 0;
  std::uint8_t timeout = 0, retry_count = 0, rnr_retry = 7, min_rnr_timer = 0;
};

// Paces this queue pair's share of the wire. Only the turn uses it.
struct Pace {
  std::uint64_t free_at_ticks = 0;  // when the queue pair's cap allows the next quantum
  std::uint64_t sent_bytes = 0;     // bytes on the wire of the request at the ring's tail
  std::uint64_t last_ready_ns = 0;  // no later request of this queue pair arrives earlier
};

struct QueuePair {
  ibv_qp verbs{};  // the first member, so that the user's pointer is ours
  Nic* nic = nullptr;
  EventQueue* events = nullptr;  // of the context that made the queue pair
  CompletionQueue* send_cq = nullptr;
  CompletionQueue* receive_cq = nullptr;
  std::uint32_t index = 0;
  std::uint32_t max_sge = 1, max_receive_sge = 1, max_inline = 0;
  bool signal_all = false;
  std::atomic<int> state{IBV_QPS_RESET};  // ibv_qp_state; released under turn and send lock

  SendQueue sends;
  ReceiveQueue receives;
  Attributes attributes;
  std::uint32_t ece = 0;  // options in use; those of the NIC until some were set
  Outgoing out;
  Incoming in;
  Pace pace;
  std::uint64_t retry_deadline_ns = 0;  // the turn's; 0: the path is fine

  // Written under the send lock, read by any thread.
  std::atomic<std::uint64_t> work_requests{0}, bytes{0}, doorbells{0};
  std::atomic<std::uint64_t> rnr_events{0};  // written by the turn, as target

  std::uint64_t outstanding() const noexcept {
    const std::uint64_t posted = sends.posted.load(std::memory_order_acquire);
    DCHECK(posted >= sends.completed && posted - sends.completed <= sends.slots.size());
    return posted - sends.completed;
  }
};

inline QueuePair& soft(ibv_qp* qp) { return *reinterpret_cast<QueuePair*>(qp); }

}  // namespace mesh::soft

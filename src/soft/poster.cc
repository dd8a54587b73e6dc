#include "src/soft/poster.h"

#include "src/base/check.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <utility>

namespace mesh::soft {

namespace {

bool is_supported(ibv_wr_opcode opcode) {
  return opcode == IBV_WR_RDMA_WRITE || opcode == IBV_WR_RDMA_WRITE_WITH_IMM ||
         opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM || opcode == IBV_WR_RDMA_READ;
}

std::uint32_t packet_bytes(const QueuePair& qp, const SendSlot& slot) {
  return std::min(slot.bytes, qp.attributes.mtu);
}

void copy_inline(const ibv_send_wr& wr, std::byte* to) {
  for (int i = 0; i < wr.num_sge; ++i) {
    if (wr.sg_list[i].length == 0) continue;
    std::memcpy(to, reinterpret_cast<const void*>(static_cast<std::uintptr_t>(wr.sg_list[i].addr)),
                wr.sg_list[i].length);
    to += wr.sg_list[i].length;
  }
}

// Fills in a request. seen: the sources as our NIC sees them, from where the target reads.
void fill_request(const ibv_send_wr& wr, const SendSlot& slot, const RingSge* seen,
                  RingRequest& request) {
  request.ready_at_ns = 0;
  request.remote_address = wr.wr.rdma.remote_addr;
  request.rkey = wr.wr.rdma.rkey;
  request.bytes = slot.bytes;
  request.imm = wr.imm_data;
  request.opcode = static_cast<std::uint8_t>(wr.opcode);
  request.is_inline = slot.is_inline ? 1 : 0;
  request.sges = slot.sges;
  if (slot.is_inline) {
    copy_inline(wr, request.inline_bytes);
  } else {
    std::copy_n(seen, slot.sges, request.sge);
  }
}

}  // namespace

// One call of post_send, under the queue pair's send lock.
struct Poster::Posting {
  std::uint64_t posted = 0;     // running count, stored at the end
  std::uint64_t published = 0;  // the ring's tail after the call
  // Requests go straight to the target. Otherwise the turn puts them on the modelled wire.
  bool direct = false;
  bool dead = false;  // the queue pair is in ERR, and the turn flushes
  std::uint64_t bytes = 0;
};

int Poster::send(QueuePair& qp, ibv_send_wr* wr, ibv_send_wr** bad) noexcept {
  std::lock_guard lock(qp.sends.lock);
  const int state = qp.state.load(std::memory_order_acquire);
  if (state != IBV_QPS_RTS && state != IBV_QPS_ERR) {
    *bad = wr;
    return EINVAL;
  }
  if (!std::exchange(qp.sends.noted, true)) core_.posting.ring(qp.index);
  Posting posting;
  posting.posted = qp.sends.posted.load(std::memory_order_relaxed);
  posting.dead = state == IBV_QPS_ERR;
  if (!posting.dead) {
    posting.published = qp.out.ring->header().tail.load(std::memory_order_relaxed);
    posting.direct = !core_.shaped() && !qp.sends.poisoned && posting.published == posting.posted;
  }
  spend_on(wr);
  int error = 0;
  for (; wr != nullptr && error == 0; wr = wr->next) {
    error = stage(qp, *wr, posting);
    if (error != 0) *bad = wr;
  }
  publish(qp, posting);
  return error;
}

// Charges the host's CPU: requests are built one after the other, and one doorbell follows.
void Poster::spend_on(const ibv_send_wr* wr) noexcept {
  const NicCosts& costs = core_.fabric.costs;
  if (costs.post_ns == 0 && costs.doorbell_ns == 0) return;
  std::uint64_t ns = costs.doorbell_ns;
  for (; wr != nullptr; wr = wr->next) ns += costs.post_ns;
  core_.cpu.spend(ns);
}

int Poster::stage(QueuePair& qp, const ibv_send_wr& wr, Posting& posting) noexcept {
  DCHECK(qp.sends.lock.held_here());
  if (!is_supported(wr.opcode) || wr.num_sge < 0 ||
      static_cast<std::uint32_t>(wr.num_sge) > qp.max_sge)
    return EINVAL;
  SendQueue& queue = qp.sends;
  if (posting.posted - queue.freed.load(std::memory_order_acquire) >= queue.depth) return ENOMEM;
  std::uint64_t bytes = 0;
  for (int i = 0; i < wr.num_sge; ++i) bytes += wr.sg_list[i].length;
  const bool is_inline = (wr.send_flags & IBV_SEND_INLINE) != 0;
  if (bytes > kWorkRequestBytesMax ||
      (is_inline && (bytes > qp.max_inline || wr.opcode == IBV_WR_RDMA_READ)))
    return EINVAL;

  DCHECK(posting.posted - queue.freed.load(std::memory_order_relaxed) < queue.slots.size());
  SendSlot& slot = queue.to_fill(posting.posted);
  slot.wr_id = wr.wr_id;
  slot.bytes = static_cast<std::uint32_t>(bytes);
  slot.sges = static_cast<std::uint8_t>(wr.num_sge);
  slot.is_inline = is_inline;
  slot.signaled = qp.signal_all || (wr.send_flags & IBV_SEND_SIGNALED) != 0;
  slot.opcode = wr.opcode;
  slot.local_error = IBV_WC_SUCCESS;
  slot.vanishes = false;
  std::array<RingSge, kSgesMax> seen{};
  if (!is_inline) check_sources(qp, wr, slot, seen.data());
  posting.bytes += bytes;
  if (posting.dead) {
    ++posting.posted;
    return 0;
  }
  if (core_.shaped()) {
    slot.posted_at_ns = core_.cpu.now_ns();
    slot.fault_delay_ns = 0;
    if (core_.faults.armed()) {
      const FaultPlan::PostVerdict verdict = core_.faults.on_post(
          core_.spec.name, {.qp_num = qp.verbs.qp_num, .packet_bytes = packet_bytes(qp, slot)},
          slot.posted_at_ns);
      if (verdict.refused) return EIO;
      if (verdict.vanishes && slot.local_error == IBV_WC_SUCCESS) {
        slot.vanishes = true;
        slot.local_error = IBV_WC_RETRY_EXC_ERR;
      }
      if (verdict.status != IBV_WC_SUCCESS) slot.local_error = verdict.status;
      slot.fault_delay_ns = verdict.delay_ns;
    }
  }
  if (slot.local_error != IBV_WC_SUCCESS) {
    queue.poisoned = true;
    posting.direct = false;
  } else {
    RingRequest& request = qp.out.ring->request(posting.posted);
    fill_request(wr, slot, seen.data(), request);
    request.psn = (qp.attributes.sq_psn + static_cast<std::uint32_t>(posting.posted)) & 0xffffff;
  }
  ++posting.posted;
  if (posting.direct) posting.published = posting.posted;
  return 0;
}

void Poster::check_sources(QueuePair& qp, const ibv_send_wr& wr, SendSlot& slot,
                           RingSge* seen) noexcept {
  const int access = wr.opcode == IBV_WR_RDMA_READ ? IBV_ACCESS_LOCAL_WRITE : 0;
  for (int i = 0; i < wr.num_sge; ++i) {
    const ibv_sge& sge = wr.sg_list[i];
    slot.sge[static_cast<std::size_t>(i)] = {sge.addr, sge.length, sge.lkey};
  }
  if (!core_.regions.resolve({slot.sge, slot.sges, qp.verbs.pd, access}, seen))
    slot.local_error = IBV_WC_LOC_PROT_ERR;
}

// Publishes the requests. The tail is stored before `posted`: a turn that saw more posted than
// published would put the rest on the modelled wire itself.
void Poster::publish(QueuePair& qp, Posting& posting) noexcept {
  SendQueue& queue = qp.sends;
  const std::uint64_t before = queue.posted.load(std::memory_order_relaxed);
  DCHECK(qp.sends.lock.held_here() && posting.posted >= before);

  if (posting.posted == before) return;
  qp.work_requests.store(qp.work_requests.load(std::memory_order_relaxed) + posting.posted - before,
                         std::memory_order_relaxed);
  qp.bytes.store(qp.bytes.load(std::memory_order_relaxed) + posting.bytes,
                 std::memory_order_relaxed);
  qp.doorbells.store(qp.doorbells.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  bool look = true;  // our own turn has something to do for these requests
  if (!posting.dead) {
    RingHeader& header = qp.out.ring->header();
    const bool published = posting.published != header.tail.load(std::memory_order_relaxed);
    if (published) header.tail.store(posting.published, std::memory_order_release);
    queue.posted.store(posting.posted, std::memory_order_release);
    Board* board = qp.out.peer->board();
    if (published && board == nullptr) {
      // Our own bell is a full fence: if the board is still not known after it, the thread that
      // makes it known will see the new tail.
      core_.board.ring_response(core_.self.nic, qp.index);
      board = qp.out.peer->board();
    }
    if (published && board != nullptr) board->ring_request(qp.out.peer_nic, qp.out.peer_index);
    // The bell is a full fence: a target that left before it was rung has said so by now.
    look = posting.published != posting.posted || qp.out.ring->state() != TargetState::Attached ||
           header.streams.load(std::memory_order_relaxed) != 0 || qp.out.peer->lost();
  } else {
    queue.posted.store(posting.posted, std::memory_order_release);
  }
  if (look) core_.board.ring_response(core_.self.nic, qp.index);
}

int Poster::receive(QueuePair& qp, ibv_recv_wr* wr, ibv_recv_wr** bad) noexcept {
  ReceiveQueue& queue = qp.receives;
  std::lock_guard lock(queue.lock);
  std::uint64_t posted = queue.posted.load(std::memory_order_relaxed);
  int error = qp.state.load(std::memory_order_acquire) == IBV_QPS_RESET ? EINVAL : 0;
  for (; wr != nullptr && error == 0; wr = wr->next) {
    if (wr->num_sge < 0 || static_cast<std::uint32_t>(wr->num_sge) > qp.max_receive_sge) {
      error = EINVAL;
    } else if (posted - queue.freed.load(std::memory_order_acquire) >= queue.depth) {
      error = ENOMEM;
    }
    if (error != 0) break;
    ReceiveSlot& slot = queue.to_fill(posted++);
    slot.wr_id = wr->wr_id;
    slot.sges = static_cast<std::uint32_t>(wr->num_sge);
    for (std::size_t i = 0; i < slot.sges; ++i)
      slot.sge[i] = {wr->sg_list[i].addr, wr->sg_list[i].length, wr->sg_list[i].lkey};
  }
  if (error != 0) *bad = wr;
  // Pairs with to_error(), which sets the state and then looks at `posted`. Here `posted` is stored
  // first, and then the state is read.
  queue.posted.store(posted, std::memory_order_seq_cst);
  if (qp.state.load(std::memory_order_seq_cst) == IBV_QPS_ERR)
    core_.board.ring_response(core_.self.nic, qp.index);
  return error;
}

}  // namespace mesh::soft

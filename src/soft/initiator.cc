#include "src/soft/initiator.h"

#include "src/base/check.h"
#include "src/soft/copy.h"

#include <algorithm>
#include <array>
#include <mutex>

namespace mesh::soft {

namespace {

constexpr std::uint64_t kTimeoutUnitNs = 4096;

ibv_wc_opcode completion_opcode(ibv_wr_opcode opcode) {
  if (opcode == IBV_WR_RDMA_READ) return IBV_WC_RDMA_READ;
  return opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM ? IBV_WC_SEND : IBV_WC_RDMA_WRITE;
}

}  // namespace

bool Initiator::complete(QueuePair& qp, TurnTime& time) noexcept {
  DCHECK(core_.turning());
  const int state = qp.state.load(std::memory_order_acquire);
  if (qp.out.ring != nullptr && core_.mute(time)) {  // it stays among those that are looked at
    qp.retry_deadline_ns = 0;
    return false;
  }
  if (state == IBV_QPS_ERR || qp.out.ring == nullptr) {
    core_.completing.erase(qp.index);
    return state == IBV_QPS_ERR && flush(qp);
  }
  bool moved = false;
  const bool cut = cut_off(qp, time);
  if (!cut) {
    moved = take_responses(qp, time);
    if (qp.state.load(std::memory_order_relaxed) == IBV_QPS_ERR) return true;
    if (qp.out.ring->header().streams.load(std::memory_order_acquire) != 0) moved |= stream(qp);
    if (qp.state.load(std::memory_order_relaxed) == IBV_QPS_ERR) return true;
  }
  const std::uint64_t posted = qp.sends.posted.load(std::memory_order_acquire);
  const std::uint64_t completed = qp.sends.completed;
  if (completed < posted && qp.sends.slot(completed).local_error != IBV_WC_SUCCESS &&
      !qp.sends.slot(completed).vanishes) {
    to_error(qp, qp.sends.slot(completed).local_error);
    return true;
  }
  RingHeader& header = qp.out.ring->header();
  if (!cut && header.tail.load(std::memory_order_relaxed) < posted) core_.backlog.insert(qp.index);
  moved |= watch(qp, time);
  const bool answered = header.responded.load(std::memory_order_acquire) != qp.sends.completed;
  const bool watched = qp.outstanding() != 0 && (cut || qp.retry_deadline_ns != 0);
  if (!answered && !watched) core_.completing.erase(qp.index);
  return moved;
}

std::uint64_t Initiator::due_ns(QueuePair& qp, TurnTime& time) noexcept {
  DCHECK(core_.turning() && qp.out.ring != nullptr);
  if (core_.mute(time)) return time.now_ns() + kStalledLookNs;
  if (qp.state.load(std::memory_order_relaxed) == IBV_QPS_ERR) return 0;
  const std::uint64_t completed = qp.sends.completed;
  std::uint64_t due_ns = qp.retry_deadline_ns != 0 ? qp.retry_deadline_ns : UINT64_MAX;
  if (cut_off(qp, time)) return std::min(due_ns, time.now_ns() + kStalledLookNs);
  if (qp.out.ring->header().responded.load(std::memory_order_acquire) > completed)
    due_ns = std::min(due_ns, qp.out.ring->response(completed).ready_at_ns);
  return due_ns;
}

bool Initiator::cut_off(const QueuePair& qp, TurnTime& time) noexcept {
  return core_.cut_off(qp.attributes, qp.out.peer->host(), time);
}

bool Initiator::take_responses(QueuePair& qp, TurnTime& time) noexcept {
  SendQueue& queue = qp.sends;
  Ring& ring = *qp.out.ring;
  const std::uint64_t responded = ring.header().responded.load(std::memory_order_acquire);
  const std::uint64_t posted = queue.posted.load(std::memory_order_acquire);
  DCHECK(core_.turning() && queue.completed <= posted);
  bool moved = false;
  while (queue.completed < posted) {
    SendSlot& slot = queue.slot(queue.completed);
    if (slot.opcode == IBV_WR_RDMA_READ && slot.local_error == IBV_WC_SUCCESS) {
      moved |= drain_read(qp);
      if (qp.state.load(std::memory_order_relaxed) == IBV_QPS_ERR) return true;
    }
    if (queue.completed >= responded) break;
    const RingResponse& response = ring.response(queue.completed);
    if (response.ready_at_ns != 0 && response.ready_at_ns > time.now_ns()) break;
    const auto status = static_cast<ibv_wc_status>(response.status);
    moved = true;
    if (status != IBV_WC_SUCCESS) {
      to_error(qp, status);
      return true;
    }
    complete_send(qp, status);
  }
  return moved;
}

bool Initiator::drain_read(QueuePair& qp) noexcept {
  DCHECK(qp.outstanding() != 0);
  SendSlot& slot = qp.sends.slot(qp.sends.completed);
  RingHeader& header = qp.out.ring->header();
  bool moved = false;
  while (qp.sends.read_done < slot.bytes) {
    const std::uint64_t out = header.read_out.load(std::memory_order_relaxed);
    const std::uint64_t there = header.read_in.load(std::memory_order_acquire) - out;
    const std::size_t piece = std::min<std::size_t>(
        {there, slot.bytes - qp.sends.read_done, kStreamBytes - out % kStreamBytes});
    if (piece == 0) break;
    std::array<RingSge, kSgesMax> seen{};
    if (!core_.regions.resolve({slot.sge, slot.sges, qp.verbs.pd, IBV_ACCESS_LOCAL_WRITE},
                               seen.data())) {
      to_error(qp, IBV_WC_LOC_PROT_ERR);
      return true;
    }
    scatter({seen.data(), slot.sges, qp.sends.read_done, piece},
            qp.out.ring->read_stream() + out % kStreamBytes);
    header.read_out.store(out + piece, std::memory_order_release);
    qp.sends.read_done += piece;
    moved = true;
  }
  if (Board* board = qp.out.peer->board(); moved && board != nullptr)
    board->ring_request(qp.out.peer_nic, qp.out.peer_index);
  return moved;
}

// Puts sources into the stream for a target that cannot read our memory.
bool Initiator::stream(QueuePair& qp) noexcept {
  SendQueue& queue = qp.sends;
  RingHeader& header = qp.out.ring->header();
  const std::uint64_t tail = header.tail.load(std::memory_order_acquire);
  bool moved = false;
  DCHECK(core_.turning() && queue.completed <= queue.posted.load(std::memory_order_acquire));
  while (queue.streamed < tail) {
    const SendSlot& slot = queue.slot(queue.streamed);
    const std::uint64_t total = slot.is_inline || slot.opcode == IBV_WR_RDMA_READ ? 0 : slot.bytes;
    if (queue.streamed_bytes >= total) {
      ++queue.streamed;
      queue.streamed_bytes = 0;
      continue;
    }
    const std::uint64_t in = header.data_in.load(std::memory_order_relaxed);
    const std::uint64_t used = in - header.data_out.load(std::memory_order_acquire);
    const std::size_t room =
        used >= kStreamBytes ? 0 : static_cast<std::size_t>(kStreamBytes - used);
    const std::size_t piece = std::min<std::size_t>(
        {total - queue.streamed_bytes, room, kStreamBytes - in % kStreamBytes});
    if (piece == 0) break;
    std::array<RingSge, kSgesMax> seen{};
    if (!core_.regions.resolve({slot.sge, slot.sges, qp.verbs.pd, 0}, seen.data())) {
      to_error(qp, IBV_WC_LOC_PROT_ERR);
      return true;
    }
    gather(qp.out.ring->data_stream() + in % kStreamBytes,
           {seen.data(), slot.sges, queue.streamed_bytes, piece}, 0);
    header.data_in.store(in + piece, std::memory_order_release);
    queue.streamed_bytes += piece;
    moved = true;
  }
  if (Board* board = qp.out.peer->board(); moved && board != nullptr)
    board->ring_request(qp.out.peer_nic, qp.out.peer_index);
  return moved;
}

// Watches a target that does not answer: after timeout x tries the oldest work request fails. A
// peer that is alive and attached is waited for without end, because its process may be stopped.
bool Initiator::watch(QueuePair& qp, TurnTime& time) noexcept {
  DCHECK(core_.turning() && qp.out.ring != nullptr);
  const TargetState state = qp.out.ring->state();
  const bool answers = state == TargetState::Attached || state == TargetState::Unseen;
  const bool stuck =
      qp.outstanding() != 0 && (!answers || qp.out.peer->lost() || cut_off(qp, time) ||
                                qp.sends.slot(qp.sends.completed).vanishes);
  if (!stuck || qp.attributes.timeout == 0) {
    qp.retry_deadline_ns = 0;
    return false;
  }
  if (qp.retry_deadline_ns == 0) {
    const std::uint64_t tries = std::uint64_t{qp.attributes.retry_count} + 1;
    qp.retry_deadline_ns = time.now_ns() + (kTimeoutUnitNs << qp.attributes.timeout) * tries;
  }
  if (time.now_ns() < qp.retry_deadline_ns) return false;
  to_error(qp, IBV_WC_RETRY_EXC_ERR);
  return true;
}

void Initiator::complete_send(QueuePair& qp, ibv_wc_status status) noexcept {
  SendQueue& queue = qp.sends;
  DCHECK(core_.turning() && qp.outstanding() != 0);
  const SendSlot& slot = queue.slot(queue.completed++);
  queue.read_done = 0;
  if (!slot.signaled && status == IBV_WC_SUCCESS) return;
  CompletionEntry entry;
  entry.wc.wr_id = slot.wr_id;
  entry.wc.status = status;
  entry.wc.opcode = completion_opcode(slot.opcode);
  entry.wc.byte_len = slot.bytes;
  entry.wc.qp_num = qp.verbs.qp_num;
  entry.qp = &qp;
  entry.end = queue.completed;
  qp.send_cq->push(entry);
}

// Completes the oldest outstanding work request with `first`, flushes the others and all receives,
// and drops what the peer has sent. Afterwards no source of ours is read any more.
void Initiator::to_error(QueuePair& qp, ibv_wc_status first) noexcept {
  DCHECK(core_.turning() && first != IBV_WC_SUCCESS);
  {
    std::lock_guard lock(qp.sends.lock);
    qp.state.store(IBV_QPS_ERR, std::memory_order_seq_cst);
    qp.verbs.state = IBV_QPS_ERR;
  }
  if (qp.out.ring != nullptr) qp.out.ring->close();
  incoming_.detach(qp);
  core_.backlog.erase(qp.index);
  qp.retry_deadline_ns = 0;
  core_.completing.insert(qp.index);
  if (TurnTime time(core_.clock); !core_.mute(time)) {  // else complete() flushes when that is over
    if (qp.outstanding() != 0) complete_send(qp, first);
    flush(qp);
  }
  DCHECK(qp.in.ring == nullptr && !core_.serving.has(qp.index) && !core_.backlog.has(qp.index));
}

// Also lets the next post tell NicCore::posting again.
bool Initiator::is_idle(QueuePair& qp) noexcept {
  DCHECK(core_.turning());  // `completed` changes in turns alone
  std::lock_guard lock(qp.sends.lock);
  qp.sends.noted = qp.sends.posted.load(std::memory_order_relaxed) != qp.sends.completed;
  return !qp.sends.noted;
}

bool Initiator::uses(QueuePair& qp, std::uint32_t key) noexcept {
  DCHECK(core_.turning());  // `completed` changes in turns alone
  if (qp.sends.posted.load(std::memory_order_acquire) == qp.sends.completed) return false;
  std::lock_guard lock(qp.sends.lock);
  const std::uint64_t posted = qp.sends.posted.load(std::memory_order_acquire);
  const std::uint64_t executed =
      std::max(qp.sends.completed, qp.out.ring->header().responded.load(std::memory_order_acquire));
  for (std::uint64_t number = qp.sends.completed; number < posted; ++number) {
    const SendSlot& slot = qp.sends.slot(number);
    if (slot.is_inline || (number < executed && slot.opcode != IBV_WR_RDMA_READ)) continue;
    for (std::size_t i = 0; i < slot.sges; ++i)
      if (slot.sge[i].lkey == key && slot.sge[i].bytes != 0) return true;
  }
  return false;
}

bool Initiator::flush(QueuePair& qp) noexcept {
  DCHECK(core_.turning() && qp.state.load(std::memory_order_relaxed) == IBV_QPS_ERR);
  bool moved = false;
  for (; qp.outstanding() != 0; moved = true) complete_send(qp, IBV_WC_WR_FLUSH_ERR);
  ReceiveQueue& queue = qp.receives;
  for (; queue.posted.load(std::memory_order_seq_cst) != queue.taken; moved = true) {
    CompletionEntry entry;
    entry.wc.wr_id = queue.slot(queue.taken++).wr_id;
    entry.wc.status = IBV_WC_WR_FLUSH_ERR;
    entry.wc.opcode = IBV_WC_RECV;
    entry.wc.qp_num = qp.verbs.qp_num;
    entry.qp = &qp;
    entry.is_receive = true;
    qp.receive_cq->push(entry);
  }
  return moved;
}

}  // namespace mesh::soft

#include "src/soft/send_scheduler.h"

#include "src/base/check.h"

#include <algorithm>
#include <array>

namespace mesh::soft {

namespace {
constexpr std::uint32_t kScheduleSteps = 256;  // quanta in one turn
constexpr std::uint64_t kNever = UINT64_MAX;

bool carries_imm(ibv_wr_opcode opcode) {
  return opcode == IBV_WR_RDMA_WRITE_WITH_IMM || opcode == IBV_WR_SEND_WITH_IMM;
}
}  // namespace

bool SendScheduler::turn(TurnTime& time) noexcept {
  DCHECK(core_.turning());
  const std::uint64_t now_ticks = time.now_ns() * kTicksPerNs;
  bool moved = false;
  for (std::uint32_t step = 0;
       step < kScheduleSteps && !core_.backlog.empty() && core_.wire.free_at_ticks() <= now_ticks;
       ++step) {
    std::uint64_t at_ticks = kNever;
    const std::uint32_t index = next_sender(time, &at_ticks);
    if (index == kQpsMax || at_ticks > now_ticks) break;
    send_quantum(*queue_pairs_.find(index), std::max(at_ticks, core_.wire.free_at_ticks()));
    from_ = index + 1;
    moved = true;
  }
  return moved;
}

// Returns the next queue pair that may send as soon as the wire is free, or if there is none the
// one that may send first.
std::uint32_t SendScheduler::next_sender(TurnTime& time, std::uint64_t* at_ticks) noexcept {
  struct Span {
    std::uint32_t from, to;
  };
  std::uint32_t best = kQpsMax;
  for (const Span span : std::array<Span, 2>{{{from_, kQpsMax}, {0, from_}}}) {
    for (std::uint32_t index = core_.backlog.next(span.from); index < span.to;
         index = core_.backlog.next(index + 1)) {
      const std::uint64_t ticks = sends_at(index, time);
      if (ticks < *at_ticks) {
        best = index;
        *at_ticks = ticks;
      }
      if (*at_ticks <= core_.wire.free_at_ticks()) return best;
    }
  }
  return best;
}

// Returns when a work request may start. A NIC reads the work requests of a doorbell side by side,
// so reading takes time but no bandwidth. An inline one came with the doorbell.
std::uint64_t SendScheduler::may_start(const SendSlot& slot) const noexcept {
  return slot.posted_at_ns * kTicksPerNs + (slot.is_inline ? 0 : core_.wire.fetch_ticks());
}

// Returns when the queue pair's first unpublished request may start. Returns kNever if there is
// none; the queue pair then leaves the backlog.
std::uint64_t SendScheduler::sends_at(std::uint32_t index, TurnTime& time) noexcept {
  QueuePair* qp = queue_pairs_.find(index);
  bool sends = qp != nullptr && qp->state.load(std::memory_order_acquire) == IBV_QPS_RTS;
  if (sends && (core_.mute(time) || core_.cut_off(qp->attributes, qp->out.peer->host(), time))) {
    core_.completing.insert(index);  // so that it is watched
    sends = false;
  }
  if (sends) {
    const std::uint64_t tail = qp->out.ring->header().tail.load(std::memory_order_relaxed);
    const bool any = tail < qp->sends.posted.load(std::memory_order_acquire);
    const SendSlot& slot = qp->sends.slot(tail);
    if (any && slot.local_error == IBV_WC_SUCCESS)
      return std::max(may_start(slot), qp->pace.free_at_ticks);
  }
  core_.backlog.erase(index);
  return kNever;
}

void SendScheduler::send_quantum(QueuePair& qp, std::uint64_t at_ticks) noexcept {
  Ring& ring = *qp.out.ring;
  const std::uint64_t tail = ring.header().tail.load(std::memory_order_relaxed);
  DCHECK(core_.turning() && qp.outstanding() != 0);
  const SendSlot& slot = qp.sends.slot(tail);
  const std::uint64_t payload = slot.opcode == IBV_WR_RDMA_READ ? 0 : slot.bytes;
  const std::uint64_t total =
      WireModel::wire_bytes(payload, qp.attributes.mtu, carries_imm(slot.opcode));
  const std::uint64_t quantum = core_.wire.turn_bytes(qp.pace.sent_bytes, total, qp.attributes.mtu);
  const std::uint64_t end_ticks =
      core_.wire.send(at_ticks, quantum, qp.out.peer->slot_of(qp.out.peer_nic));
  qp.pace.free_at_ticks = std::max(qp.pace.free_at_ticks, at_ticks) + core_.wire.qp_ticks(quantum);
  qp.pace.sent_bytes += quantum;
  if (qp.pace.sent_bytes < total) return;

  qp.pace.sent_bytes = 0;
  const std::uint64_t arrival_ns =
      (end_ticks + kTicksPerNs - 1) / kTicksPerNs + core_.wire.delay_ns() + slot.fault_delay_ns;
  qp.pace.last_ready_ns = std::max(qp.pace.last_ready_ns, arrival_ns);
  ring.request(tail).ready_at_ns = qp.pace.last_ready_ns;
  ring.header().tail.store(tail + 1, std::memory_order_release);
  if (Board* board = qp.out.peer->board(); board != nullptr)
    board->ring_request(qp.out.peer_nic, qp.out.peer_index);
  if (ring.header().streams.load(std::memory_order_relaxed) != 0) core_.completing.insert(qp.index);
}

std::uint64_t SendScheduler::due_ns(TurnTime& time) noexcept {
  std::uint64_t due_ns = kNever;
  for (std::uint32_t i = core_.backlog.next(0); i < kQpsMax; i = core_.backlog.next(i + 1)) {
    const std::uint64_t ticks = sends_at(i, time);
    if (ticks == kNever) continue;
    const std::uint64_t from_ticks = std::max(ticks, core_.wire.free_at_ticks());
    due_ns = std::min(due_ns, (from_ticks + kTicksPerNs - 1) / kTicksPerNs);
  }
  return due_ns;
}

}  // namespace mesh::soft

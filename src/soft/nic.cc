#include "src/soft/nic.h"

#include "src/base/check.h"
#include "src/base/log.h"

#include <algorithm>
#include <array>
#include <mutex>

namespace mesh::soft {

Nic::Nic(const NicOptions& options)
    : core_(options), poster_(core_), queue_pairs_(core_.self), port_(core_) {}

Nic::~Nic() {
  for (QueuePair* qp : std::vector<QueuePair*>(queue_pairs_.slots()))
    if (qp != nullptr) destroy_qp(qp);
  const Totals all = totals();
  if (all.rnr_events > 0)
    LOG_WARN("soft fabric: {} receiver-not-ready events on {}", all.rnr_events, core_.spec.name);
}

bool Nic::try_turn() noexcept {
  if (!core_.turn_lock.try_lock()) return false;
  const bool moved = turn_locked();
  core_.turn_lock.unlock();
  return moved;
}

// Answers come first, because they make room. Then our own requests go onto the wire, and then the
// peers' requests are executed.
bool Nic::turn_locked() noexcept {
  DCHECK(core_.turning());
  core_.posts.acquire();
  turns_.store(turns_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  core_.bells.responses.take(core_.completing);
  core_.bells.requests.take(core_.serving);
  TurnTime time(core_.clock);
  if (port_.needs_watching()) port_.watch(time);
  bool moved = false;
  for (std::uint32_t i = core_.completing.next(0); i < kQpsMax; i = core_.completing.next(i + 1)) {
    QueuePair* qp = queue_pairs_.find(i);
    if (qp == nullptr) {
      core_.completing.erase(i);
    } else {
      DCHECK(qp->nic == this);
      moved |= complete(*qp, time);
    }
  }
  if (!core_.backlog.empty()) moved |= schedule(time);
  if (core_.serving.empty()) return moved;
  struct Span {
    std::uint32_t from, to;
  };
  Budget budget;
  for (const Span span : std::array<Span, 2>{{{serve_from_, kQpsMax}, {0, serve_from_}}}) {
    for (std::uint32_t i = core_.serving.next(span.from); i < span.to;
         i = core_.serving.next(i + 1)) {
      if (budget.requests == 0 || budget.bytes == 0) {
        serve_from_ = i;
        return true;
      }
      if (QueuePair* qp = queue_pairs_.find(i); qp != nullptr) {
        DCHECK(qp->nic == this);
        moved |= serve(*qp, time, budget);
      } else {
        core_.serving.erase(i);
      }
    }
  }
  return moved;
}

bool Nic::has_work() {
  std::lock_guard lock(core_.turn_lock);
  if (port_.needs_watching()) return true;
  return core_.bells.requests.any() || core_.bells.responses.any() || !core_.serving.empty() ||
         !core_.completing.empty() || !core_.backlog.empty();
}

std::uint64_t Nic::next_due_ns() {
  std::lock_guard lock(core_.turn_lock);
  if (core_.bells.requests.any() || core_.bells.responses.any()) return 0;
  std::uint64_t due_ns = UINT64_MAX;
  TurnTime time(core_.clock);
  if (port_.needs_watching()) due_ns = port_.due_ns(time);
  for (std::uint32_t i = core_.serving.next(0); i < kQpsMax; i = core_.serving.next(i + 1)) {
    QueuePair* qp = queue_pairs_.find(i);
    if (qp == nullptr || qp->in.ring == nullptr) return 0;
    due_ns = std::min(due_ns, serve_due_ns(*qp, time));
  }
  for (std::uint32_t i = core_.completing.next(0); i < kQpsMax; i = core_.completing.next(i + 1)) {
    QueuePair* qp = queue_pairs_.find(i);
    if (qp == nullptr || qp->out.ring == nullptr) return 0;
    due_ns = std::min(due_ns, complete_due_ns(*qp, time));
  }
  for (std::uint32_t i = core_.backlog.next(0); i < kQpsMax; i = core_.backlog.next(i + 1)) {
    const std::uint64_t ticks = sends_at(i, time);
    if (ticks != UINT64_MAX)
      due_ns = std::min(
          due_ns, (std::max(ticks, core_.wire.free_at_ticks()) + kTicksPerNs - 1) / kTicksPerNs);
  }
  return due_ns;
}

std::uint64_t Nic::serve_due_ns(QueuePair& qp, TurnTime& time) noexcept {
  DCHECK(core_.turning() && qp.in.ring != nullptr);
  Incoming& in = qp.in;
  const std::uint64_t tail = in.ring->header().tail.load(std::memory_order_acquire);
  if (in.next == tail || in.ring->closed()) return 0;
  if (in.ring->state() == TargetState::Stalled) return time.now_ns() + kStalledLookNs;
  const RingRequest& request = in.ring->request(in.next);
  if (in.retry_at_ns != 0 &&
      qp.receives.posted.load(std::memory_order_acquire) == qp.receives.taken)
    return in.retry_at_ns;
  if (in.waits_for_stream) {
    const RingHeader& header = in.ring->header();
    const bool there = header.data_in.load(std::memory_order_acquire) !=
                       header.data_out.load(std::memory_order_relaxed);
    const bool room = header.read_in.load(std::memory_order_relaxed) !=
                      header.read_out.load(std::memory_order_acquire) + kStreamBytes;
    const bool read = request.opcode == IBV_WR_RDMA_READ;
    return (read ? room : there) ? 0 : UINT64_MAX;
  }
  return request.ready_at_ns;
}

std::uint64_t Nic::complete_due_ns(QueuePair& qp, TurnTime& time) noexcept {
  DCHECK(core_.turning() && qp.out.ring != nullptr);
  if (qp.state.load(std::memory_order_relaxed) == IBV_QPS_ERR) return 0;
  const std::uint64_t completed = qp.sends.completed;
  std::uint64_t due_ns = qp.retry_deadline_ns != 0 ? qp.retry_deadline_ns : UINT64_MAX;
  if (cut_off(qp, time)) return std::min(due_ns, time.now_ns() + kStalledLookNs);
  if (qp.out.ring->header().responded.load(std::memory_order_acquire) > completed)
    due_ns = std::min(due_ns, qp.out.ring->response(completed).ready_at_ns);
  return due_ns;
}

Nic::Totals Nic::totals() {
  std::lock_guard lock(core_.turn_lock);
  return queue_pairs_.totals();
}

}  // namespace mesh::soft

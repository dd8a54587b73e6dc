#include "src/soft/nic.h"

#include "src/base/check.h"
#include "src/base/log.h"

#include <algorithm>
#include <array>
#include <mutex>

namespace mesh::soft {

namespace {
const LinkSpec* link_of(const FabricFile& fabric, const NicSpec& nic) {
  return nic.link < 0 ? nullptr : &fabric.links[static_cast<std::size_t>(nic.link)];
}
const NicSpec& nic_of(const FabricFile& fabric, NicRef ref) {
  return fabric.hosts[static_cast<std::size_t>(ref.host)].nics[static_cast<std::size_t>(ref.nic)];
}
}  // namespace

Nic::Nic(const NicOptions& options)
    : self_(options.self),
      fabric_(*options.fabric),
      spec_(nic_of(fabric_, self_)),
      link_(link_of(fabric_, spec_)),
      faults_(*options.faults),
      board_(*options.board),
      bells_(board_.nic(self_.nic)),
      clock_(options.clock),
      cpu_(*options.cpu),
      wire_(link_, spec_, fabric_.costs, *options.transmitter),
      modelled_(wire_.modelled()) {}

Nic::~Nic() {
  for (QueuePair* qp : std::vector<QueuePair*>(qps_))
    if (qp != nullptr) destroy_qp(qp);
  const Totals all = totals();
  if (all.rnr_events > 0)
    LOG_WARN("soft fabric: {} receiver-not-ready events on {}", all.rnr_events, spec_.name);
}

bool Nic::try_turn() noexcept {
  if (!turn_lock_.try_lock()) return false;
  const bool moved = turn_locked();
  turn_lock_.unlock();
  return moved;
}

// Answers come first, because they make room. Then our own requests go onto the wire, and then the
// peers' requests are executed.
bool Nic::turn_locked() noexcept {
  DCHECK(turning());
  posts_.acquire();
  turns_.store(turns_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  bells_.responses.take(completing_);
  bells_.requests.take(serving_);
  TurnTime time(clock_);
  if (faults_.armed() || port_down_) watch_port(time);
  bool moved = false;
  for (std::uint32_t i = completing_.next(0); i < kQpsMax; i = completing_.next(i + 1)) {
    QueuePair* qp = find(i);
    if (qp == nullptr) {
      completing_.erase(i);
    } else {
      moved |= complete(*qp, time);
    }
  }
  if (!backlog_.empty()) moved |= schedule(time);
  if (serving_.empty()) return moved;
  struct Span {
    std::uint32_t from, to;
  };
  Budget budget;
  for (const Span span : std::array<Span, 2>{{{serve_from_, kQpsMax}, {0, serve_from_}}}) {
    for (std::uint32_t i = serving_.next(span.from); i < span.to; i = serving_.next(i + 1)) {
      if (budget.requests == 0 || budget.bytes == 0) {
        serve_from_ = i;
        return true;
      }
      if (QueuePair* qp = find(i); qp != nullptr) {
        moved |= serve(*qp, time, budget);
      } else {
        serving_.erase(i);
      }
    }
  }
  return moved;
}

QueuePair* Nic::find(std::uint32_t index) const noexcept {
  return index < qps_.size() ? qps_[index] : nullptr;
}

QueuePair* Nic::find_num(std::uint32_t qp_num) const noexcept {
  QueuePair* qp = find(qp_num % kQpsMax);
  DCHECK(qp == nullptr || qp->index == qp_num % kQpsMax);
  return qp != nullptr && qp->verbs.qp_num == qp_num ? qp : nullptr;
}

bool Nic::has_work() {
  std::lock_guard lock(turn_lock_);
  if (faults_.armed() || port_down_) return true;
  return bells_.requests.any() || bells_.responses.any() || !serving_.empty() ||
         !completing_.empty() || !backlog_.empty();
}

std::uint64_t Nic::next_due_ns() {
  std::lock_guard lock(turn_lock_);
  if (bells_.requests.any() || bells_.responses.any()) return 0;
  std::uint64_t due_ns = UINT64_MAX;
  TurnTime time(clock_);
  if (faults_.armed() || port_down_) due_ns = port_due_ns(time);
  for (std::uint32_t i = serving_.next(0); i < kQpsMax; i = serving_.next(i + 1)) {
    QueuePair* qp = find(i);
    if (qp == nullptr || qp->in.ring == nullptr) return 0;
    due_ns = std::min(due_ns, serve_due_ns(*qp, time));
  }
  for (std::uint32_t i = completing_.next(0); i < kQpsMax; i = completing_.next(i + 1)) {
    QueuePair* qp = find(i);
    if (qp == nullptr || qp->out.ring == nullptr) return 0;
    due_ns = std::min(due_ns, complete_due_ns(*qp, time));
  }
  for (std::uint32_t i = backlog_.next(0); i < kQpsMax; i = backlog_.next(i + 1)) {
    const std::uint64_t ticks = sends_at(i, time);
    if (ticks != UINT64_MAX)
      due_ns = std::min(due_ns,
                        (std::max(ticks, wire_.free_at_ticks()) + kTicksPerNs - 1) / kTicksPerNs);
  }
  return due_ns;
}

std::uint64_t Nic::serve_due_ns(QueuePair& qp, TurnTime& time) noexcept {
  DCHECK(turning() && qp.in.ring != nullptr);
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
  DCHECK(turning() && qp.out.ring != nullptr);
  if (qp.state.load(std::memory_order_relaxed) == IBV_QPS_ERR) return 0;
  const std::uint64_t completed = qp.sends.completed;
  std::uint64_t due_ns = qp.retry_deadline_ns != 0 ? qp.retry_deadline_ns : UINT64_MAX;
  if (cut_off(qp, time)) return std::min(due_ns, time.now_ns() + kStalledLookNs);
  if (qp.out.ring->header().responded.load(std::memory_order_acquire) > completed)
    due_ns = std::min(due_ns, qp.out.ring->response(completed).ready_at_ns);
  return due_ns;
}

Nic::Totals Nic::totals() {
  std::lock_guard lock(turn_lock_);
  Totals all = gone_;
  for (const QueuePair* qp : qps_)
    if (qp != nullptr) all.add(*qp);
  return all;
}

void Nic::Totals::add(const QueuePair& qp) noexcept {
  work_requests += qp.work_requests.load(std::memory_order_relaxed);
  bytes += qp.bytes.load(std::memory_order_relaxed);
  rnr_events += qp.rnr_events.load(std::memory_order_relaxed);
  doorbells += qp.doorbells.load(std::memory_order_relaxed);
}

}  // namespace mesh::soft

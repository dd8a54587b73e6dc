#include "src/soft/nic.h"

#include "src/base/check.h"
#include "src/base/log.h"

#include <algorithm>
#include <array>
#include <mutex>
#include <vector>

namespace mesh::soft {

namespace {
bool is_connected(const QueuePair& qp) noexcept {
  const int state = qp.state.load(std::memory_order_relaxed);
  return state == IBV_QPS_RTR || state == IBV_QPS_RTS;
}
}  // namespace

NicCore::NicCore(const NicOptions& options)
    : self(options.self),
      fabric(*options.fabric),
      spec(fabric.nic(self)),
      faults(*options.faults),
      board(*options.board),
      bells(board.nic(self.nic)),
      clock(options.clock),
      cpu(*options.cpu),
      wire(link(), spec, fabric.costs, options.wires),
      modelled(wire.modelled() || fabric.has_slots()),
      lid(spec.lid) {}

bool NicPort::is_down_now(TurnTime& time) noexcept {
  DCHECK(core_.turning());
  return core_.faults.armed() && core_.faults.port_down(core_.spec.name, time.now_ns());
}

std::uint16_t NicPort::lid_now(TurnTime& time) noexcept {
  DCHECK(core_.turning());
  if (core_.spec.lid == 0 || !core_.faults.armed()) return core_.spec.lid;
  const int changes = core_.faults.lid_changes(core_.spec.name, time.now_ns());
  return static_cast<std::uint16_t>(core_.spec.lid +
                                    std::min(changes, kLidChangesMax) * (kLidsMax + 1));
}

void NicPort::tell(verbs::DeviceEventKind kind) noexcept {
  for (EventQueue* queue : queues_) queue->push({.kind = kind, .port = kPort});
}

bool NicPort::watch(TurnTime& time) noexcept {
  if (const std::uint16_t lid = lid_now(time); lid != core_.lid) {
    core_.lid = lid;
    tell(verbs::DeviceEventKind::LidChange);
  }
  const bool down = is_down_now(time);
  const bool was_gone = gone_, was_down = down_, was_empty = slot_empty_;
  gone_ = core_.faults.armed() && core_.faults.card_left(core_.spec.name, time.now_ns());
  slot_empty_ = gone_ && core_.faults.slot_empty(core_.spec.name, time.now_ns());
  down_ = down;
  if (gone_ && !was_gone)
    tell(verbs::DeviceEventKind::DeviceFatal);
  else if (down != was_down)
    tell(down ? verbs::DeviceEventKind::PortError : verbs::DeviceEventKind::PortActive);
  const bool left = slot_empty_ && !was_empty;
  if (left) queues_.clear();
  return left;
}

std::uint64_t NicPort::due_ns(TurnTime& time) noexcept {
  const bool known = is_down_now(time) == down_ && lid_now(time) == core_.lid;
  return known ? core_.faults.next_port_change_ns(core_.spec.name, time.now_ns()) : 0;
}

Nic::Nic(const NicOptions& options)
    : core_(options),
      poster_(core_),
      queue_pairs_(core_.self, options.slot),
      port_(core_),
      incoming_(core_),
      initiator_(core_, incoming_),
      target_(core_, incoming_, initiator_),
      scheduler_(core_, queue_pairs_) {}

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

// Makes one turn. Responses come first, because they make room. Then our own requests go onto the
// wire, and then the peers' requests are executed.
bool Nic::turn_locked() noexcept {
  DCHECK(core_.turning());
  core_.posts.acquire();
  turns_.store(turns_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  core_.bells.responses.take(core_.completing);
  core_.bells.requests.take(core_.serving);
  TurnTime time(core_.clock);
  if (port_.needs_watching()) watch_port(time);
  bool moved = false;
  for (std::uint32_t i = core_.completing.next(0); i < kQpsMax; i = core_.completing.next(i + 1)) {
    QueuePair* qp = queue_pairs_.find(i);
    if (qp == nullptr) {
      core_.completing.erase(i);
    } else {
      DCHECK(qp->nic == this);
      moved |= initiator_.complete(*qp, time);
    }
  }
  if (!core_.backlog.empty()) moved |= scheduler_.turn(time);
  if (core_.serving.empty()) return moved;
  struct Span {
    std::uint32_t from, to;
  };
  TurnBudget budget;
  for (const Span span : std::array<Span, 2>{{{serve_from_, kQpsMax}, {0, serve_from_}}}) {
    for (std::uint32_t i = core_.serving.next(span.from); i < span.to;
         i = core_.serving.next(i + 1)) {
      if (budget.requests == 0 || budget.bytes == 0) {
        serve_from_ = i;
        return true;
      }
      if (QueuePair* qp = queue_pairs_.find(i); qp != nullptr) {
        DCHECK(qp->nic == this);
        moved |= target_.serve(*qp, time, budget);
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
    due_ns = std::min(due_ns, target_.due_ns(*qp, time));
  }
  for (std::uint32_t i = core_.completing.next(0); i < kQpsMax; i = core_.completing.next(i + 1)) {
    QueuePair* qp = queue_pairs_.find(i);
    if (qp == nullptr || qp->out.ring == nullptr) return 0;
    due_ns = std::min(due_ns, initiator_.due_ns(*qp, time));
  }
  return std::min(due_ns, scheduler_.due_ns(time));
}

Nic::Totals Nic::totals() {
  std::lock_guard lock(core_.turn_lock);
  return queue_pairs_.totals();
}

// ---- Events.

void Nic::open_events(EventQueue& queue) {
  std::lock_guard lock(core_.turn_lock);
  port_.open(queue);
}

void Nic::close_events(EventQueue& queue) {
  std::lock_guard lock(core_.turn_lock);
  port_.close(queue);
}

Nic::PortState Nic::port_state() {
  std::lock_guard lock(core_.turn_lock);
  TurnTime time(core_.clock);
  watch_port(time);
  return {
      .up = port_.up(), .gone = port_.gone(), .slot_empty = port_.slot_empty(), .lid = core_.lid};
}

std::uint32_t Nic::connected() {
  std::lock_guard lock(core_.turn_lock);
  std::uint32_t count = 0;
  for (const QueuePair* qp : queue_pairs_.slots()) count += qp != nullptr && is_connected(*qp);
  return count;
}

// Acts as a device that can no longer serve a queue pair: flushes everything, and an event tells
// the owner.
std::size_t Nic::fail_queue_pairs(int only) {
  std::lock_guard lock(core_.turn_lock);
  int connected = 0;
  std::size_t failed = 0;
  for (QueuePair* qp : queue_pairs_.slots()) {
    if (qp == nullptr || !is_connected(*qp)) continue;
    if (only != kAllQueuePairs && connected++ != only) continue;
    initiator_.to_error(*qp, IBV_WC_WR_FLUSH_ERR);
    qp->events->push({.kind = verbs::DeviceEventKind::QpFatal, .qp_num = qp->verbs.qp_num});
    ++failed;
  }
  return failed;
}

}  // namespace mesh::soft

// Changes of a NIC from outside, and the events by which it tells its users.

#include "src/base/check.h"
#include "src/soft/nic.h"

#include <algorithm>
#include <mutex>

namespace mesh::soft {

void Nic::open_events(EventQueue& queue) {
  std::lock_guard lock(turn_lock_);
  event_queues_.push_back(&queue);
}

void Nic::close_events(EventQueue& queue) {
  std::lock_guard lock(turn_lock_);
  std::erase(event_queues_, &queue);
}

bool Nic::port_up() {
  std::lock_guard lock(turn_lock_);
  TurnTime time(clock_);
  watch_port(time);
  return link_ != nullptr && !port_down_;
}

void Nic::watch_port(TurnTime& time) noexcept {
  DCHECK(turning());
  const bool down = faults_.armed() && faults_.port_down(spec_.name, time.now_ns());
  if (down == port_down_) return;
  port_down_ = down;
  const auto kind = down ? verbs::DeviceEventKind::PortError : verbs::DeviceEventKind::PortActive;
  for (EventQueue* queue : event_queues_) queue->push({.kind = kind, .port = kPort});
}

std::uint64_t Nic::port_due_ns(TurnTime& time) noexcept {
  DCHECK(turning());
  const bool down = faults_.armed() && faults_.port_down(spec_.name, time.now_ns());
  return down == port_down_ ? faults_.next_port_change_ns(spec_.name, time.now_ns()) : 0;
}

// Acts as a device that can no longer serve a queue pair: everything is flushed, and an event tells
// the owner.
std::size_t Nic::fail_queue_pairs(int only) {
  std::lock_guard lock(turn_lock_);
  int connected = 0;
  std::size_t failed = 0;
  for (QueuePair* qp : qps_) {
    const int state = qp == nullptr ? IBV_QPS_RESET : qp->state.load(std::memory_order_relaxed);
    if (state != IBV_QPS_RTR && state != IBV_QPS_RTS) continue;
    if (only != kAllQueuePairs && connected++ != only) continue;
    to_error(*qp, IBV_WC_WR_FLUSH_ERR);
    qp->events->push({.kind = verbs::DeviceEventKind::QpFatal, .qp_num = qp->verbs.qp_num});
    ++failed;
  }
  return failed;
}

}  // namespace mesh::soft

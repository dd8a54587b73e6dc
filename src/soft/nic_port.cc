#include "src/soft/nic_port.h"

#include "src/base/check.h"

namespace mesh::soft {

bool NicPort::is_down_now(TurnTime& time) noexcept {
  DCHECK(core_.turning());
  return core_.faults.armed() && core_.faults.port_down(core_.spec.name, time.now_ns());
}

void NicPort::watch(TurnTime& time) noexcept {
  const bool down = is_down_now(time);
  if (down == down_) return;
  down_ = down;
  const auto kind = down ? verbs::DeviceEventKind::PortError : verbs::DeviceEventKind::PortActive;
  for (EventQueue* queue : queues_) queue->push({.kind = kind, .port = kPort});
}

std::uint64_t NicPort::due_ns(TurnTime& time) noexcept {
  const bool down = is_down_now(time);
  return down == down_ ? core_.faults.next_port_change_ns(core_.spec.name, time.now_ns()) : 0;
}

}  // namespace mesh::soft

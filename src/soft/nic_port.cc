#include "src/soft/nic_port.h"

#include "src/base/check.h"

#include <algorithm>

namespace mesh::soft {

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

void NicPort::watch(TurnTime& time) noexcept {
  if (const std::uint16_t lid = lid_now(time); lid != core_.lid) {
    core_.lid = lid;
    tell(verbs::DeviceEventKind::LidChange);
  }
  const bool down = is_down_now(time);
  const bool was_gone = gone_, was_down = down_;
  gone_ = core_.faults.armed() && core_.faults.card_left(core_.spec.name, time.now_ns());
  down_ = down;
  if (gone_ && !was_gone) return tell(verbs::DeviceEventKind::DeviceFatal);
  if (down == was_down) return;
  tell(down ? verbs::DeviceEventKind::PortError : verbs::DeviceEventKind::PortActive);
}

std::uint64_t NicPort::due_ns(TurnTime& time) noexcept {
  const bool known = is_down_now(time) == down_ && lid_now(time) == core_.lid;
  return known ? core_.faults.next_port_change_ns(core_.spec.name, time.now_ns()) : 0;
}

}  // namespace mesh::soft

#pragma once
// The port of one NIC, up or down and with the LID that the fault plan says, and the event queues
// that hear of a change. Thread: the NIC's turn lock. Bound: one event queue for each open context.

#include "src/soft/event_queue.h"
#include "src/soft/nic_core.h"

#include <cstdint>
#include <vector>

namespace mesh::soft {

class NicPort {
 public:
  explicit NicPort(NicCore& core) : core_(core) {}

  // The queue stays open until close().
  void open(EventQueue& queue) { queues_.push_back(&queue); }
  void close(EventQueue& queue) { std::erase(queues_, &queue); }

  // Returns true if a turn must watch the port: a fault may change it, or it has to come up again.
  bool needs_watching() const noexcept {
    return core_.faults.armed() || down_ || core_.lid != core_.spec.lid;
  }
  void watch(TurnTime& time) noexcept;          // a change makes an event
  bool gone() const noexcept { return gone_; }  // with its card, as watch() last saw it
  bool up() const noexcept { return core_.link != nullptr && !down_; }  // as watch() last saw it
  std::uint64_t due_ns(TurnTime& time) noexcept;  // when the port changes next

 private:
  bool is_down_now(TurnTime& time) noexcept;
  std::uint16_t lid_now(TurnTime& time) noexcept;
  void tell(verbs::DeviceEventKind kind) noexcept;

  NicCore& core_;
  bool down_ = false;  // as the last event said
  bool gone_ = false;
  std::vector<EventQueue*> queues_;
};

}  // namespace mesh::soft

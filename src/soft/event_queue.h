#pragma once
// What one open device context has to tell: events with a descriptor that is readable while there
// are any. Thread: any. Bound: kEventsMax; what comes on top is dropped, as the states behind
// events can be asked for.

#include "src/base/unique_fd.h"
#include "src/verbs/provider.h"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>

namespace mesh::soft {

inline constexpr std::size_t kEventsMax = 8192;  // every queue pair of a NIC, twice

class EventQueue {
 public:
  EventQueue();

  int fd() const noexcept { return fd_.get(); }
  void push(const verbs::DeviceEvent& event) noexcept;
  bool pop(verbs::DeviceEvent* event) noexcept;
  void forget_qp(std::uint32_t qp_num) noexcept;  // no event names it afterwards

 private:
  void drain_locked() noexcept;  // no event, nothing to read

  UniqueFd fd_;
  std::mutex mutex_;
  std::deque<verbs::DeviceEvent> events_;
};

}  // namespace mesh::soft

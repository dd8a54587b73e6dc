#pragma once
// The events of one open device context, with a descriptor that is readable while there are any.
// Thread: any. Bound: kEventsMax; further events are dropped, because the states that they report
// can be queried.

#include "src/base/unique_fd.h"
#include "src/verbs/provider.h"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>

namespace mesh::soft {

inline constexpr std::size_t kEventsMax = 8192;  // two for each queue pair of a NIC

class EventQueue {
 public:
  EventQueue();

  int fd() const noexcept { return fd_.get(); }
  void push(const verbs::DeviceEvent& event) noexcept;
  bool pop(verbs::DeviceEvent* event) noexcept;
  void forget_qp(std::uint32_t qp_num) noexcept;  // afterwards no event names it

 private:
  void drain_locked() noexcept;  // empties the descriptor if there are no events

  UniqueFd fd_;
  std::mutex mutex_;
  std::deque<verbs::DeviceEvent> events_;
};

}  // namespace mesh::soft

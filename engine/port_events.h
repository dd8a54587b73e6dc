#pragma once
// Handles the asynchronous events of devices. The control thread wakes for them, so that a pulled
// cable is known long before the retries of the work requests on it have run out. Thread: control
// mutex; watch() before there are threads. Bound: kEventsPerPass events of one rail in one pass.

#include "engine/link/link_host.h"
#include "engine/link/links.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace mesh::engine {

class PortEvents {
 public:
  static constexpr int kEventsPerPass = 64;  // more events make the descriptor readable again

  PortEvents(LinkHost& host, Links& links) : host_(host), links_(links) {}

  // Watches the devices of all rails. If a device cannot be watched, only completions tell of its
  // trouble.
  void watch(ControlPlane& plane);
  void on_readable(int fd);
  // Returns how often the device has told that the rail's port went down, or that it has failed.
  std::uint64_t downs_of(std::size_t rail) const noexcept {
    return rail < downs_.size() ? downs_[rail] : 0;
  }

 private:
  void take(std::uint32_t rail, const verbs::DeviceEvent& event);
  void on_card_left(std::uint32_t rail);
  void on_lid_change(std::uint32_t rail);
  void doubt_cables() noexcept;
  void on_port_change(std::uint32_t rail, bool up);

  LinkHost& host_;
  Links& links_;
  std::vector<std::uint64_t> downs_;  // by rail
};

}  // namespace mesh::engine

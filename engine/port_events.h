#pragma once
// What devices say by themselves: the control thread wakes for it, so that a pulled cable is known
// long before the retries of whoever posts to it have run out. Thread: control mutex; watch()
// before there are threads. Bound: kEventsPerPass events of one rail in one pass.

#include "engine/link/link_host.h"
#include "engine/link/links.h"

#include <cstdint>

namespace mesh::engine {

class PortEvents {
 public:
  static constexpr int kEventsPerPass = 64;  // the rest makes the descriptor readable again

  PortEvents(LinkHost& host, Links& links) : host_(host), links_(links) {}

  // A rail whose device cannot be watched is told of trouble by its completions only.
  void watch(ControlPlane& plane);
  void on_readable(int fd);

 private:
  void take(std::uint32_t rail, const verbs::DeviceEvent& event);
  void on_card_left(std::uint32_t rail);
  void on_lid_change(std::uint32_t rail);
  void on_port_change(std::uint32_t rail, bool up);

  LinkHost& host_;
  Links& links_;
};

}  // namespace mesh::engine

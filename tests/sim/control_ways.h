#pragma once
// The control path of a mesh without a management network: each connection runs over the cable or
// switch between two ports, and is silent while either of them is down. Thread: one. Bound: the
// fabric's ports.

#include "src/base/socket.h"
#include "src/soft/fabric_file.h"
#include "tests/standard.h"

namespace mesh::sim {

// The two ports of a connection.
struct ControlWay {
  soft::NicRef near, far;
  ControlWay reversed() const noexcept { return {.near = far, .far = near}; }
};

class ControlWays {
 public:
  using PortUp = std::function<bool(const soft::NicRef&)>;
  ControlWays(const soft::FabricFile& fabric, PortUp port_up)
      : fabric_(fabric), port_up_(std::move(port_up)) {}

  std::vector<SocketAddress> addresses_of(std::size_t host) const;
  SocketAddress address_of(const soft::NicRef& nic) const;
  // Returns the way from the host to an address; nothing if no port of the host meets it.
  std::optional<ControlWay> to(std::size_t host, const SocketAddress& address) const;
  bool works(const ControlWay& way) const { return port_up_(way.near) && port_up_(way.far); }

 private:
  bool meet(const soft::NicSpec& a, const soft::NicSpec& b) const;

  const soft::FabricFile& fabric_;
  const PortUp port_up_;
};

}  // namespace mesh::sim

#pragma once
// The network on which links are agreed upon (NCCL_SOCKET_IFNAME): the addresses that each host
// names, and the hosts that reach them. Thread: one owner, every rank at the same time. Bound:
// kHandshakeMsMax, and kHandshakeAddressesMax addresses of each host.

#include "perf/driver/bootstrap.h"
#include "perf/mesh_doctor/finding.h"

#include <cstddef>
#include <string>
#include <vector>

namespace mesh::doctor {

inline constexpr int kHandshakeMsMax = 2000;
inline constexpr std::size_t kHandshakeAddressesMax = 8;

struct HandshakeLook {
  std::vector<Finding> findings;
  std::vector<std::string> addresses;  // by host: "10.1.0.1 (eth0)"
  bool lost = false;                   // true: a host was lost
};
HandshakeLook look_at_handshake(driver::Bootstrap& bootstrap,
                                const std::vector<std::string>& hosts);

}  // namespace mesh::doctor

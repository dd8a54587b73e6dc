#pragma once
// An address with the length of its network's prefix, and the test whether two of them share a
// wire. Thread: any (values). Bound: none.

#include "src/base/socket.h"

#include <string>

namespace mesh::topo {

struct SubnetMember {
  SocketAddress address;  // an IPv4-mapped GID is IPv4 here (SocketAddress::from_gid)
  int prefix_len = 0;     // in bits of the address's family

  int bits() const noexcept { return address.family == AF_INET ? 32 : 128; }
  bool valid() const noexcept {
    return address.family != AF_UNSPEC && prefix_len >= 0 && prefix_len <= bits();
  }
};

// Returns true if each address takes the other address for a neighbour. With different prefix
// lengths one side would send to a gateway.
bool same_subnet(const SubnetMember& a, const SubnetMember& b) noexcept;

std::string subnet_text(const SubnetMember& member);  // "10.0.12.0/24"

}  // namespace mesh::topo

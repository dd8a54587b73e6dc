#pragma once
// Datagrams of a net device over the kernel: one UDP socket for both families, which needs no
// privilege. Each datagram names the net device that it leaves by, and the kernel tells the one by
// which another has come. Thread: one at a time. Bound: one socket.

#include "src/verbs/cable_datagrams.h"

#include <memory>
#include <string>

namespace mesh::verbs {

// Opens datagrams of a net device, or what neighbours send to kCableGroup over it. Returns null
// with errno if there is no such net device here (ENODEV), or the kernel refuses the socket:
// EADDRINUSE if another program has the group's port alone. A strict filter of source addresses
// (rp_filter 1) drops IPv4 datagrams where several net devices share a subnet.
std::unique_ptr<CableDatagrams> open_kernel_datagrams(const std::string& netdev, DatagramEnd end);

}  // namespace mesh::verbs

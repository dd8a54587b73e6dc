#pragma once
// Datagrams of a net device over the kernel: a UDP socket at its link-local IPv6 address or its
// first IPv4 address, which needs no privilege. The kernel sends from it over this device only, and
// asks for the peer's address on this device only. Thread: one at a time. Bound: one socket.

#include "src/verbs/cable_datagrams.h"

#include <memory>
#include <string>

namespace mesh::verbs {

// Opens what neighbours send to kCableGroup over a net device. Returns null if there is no such net
// device here.
std::unique_ptr<CableDatagrams> open_kernel_group(const std::string& netdev);

// Returns null if there is no such net device here, or it is not up, or it has no link-local IPv6
// address that can be used yet.
std::unique_ptr<CableDatagrams> open_kernel_datagrams(const std::string& netdev);

// Opens datagrams by the first IPv4 address of a net device. Returns null if it has none. A strict
// filter of source addresses (rp_filter 1) drops them where several net devices share a subnet.
std::unique_ptr<CableDatagrams> open_kernel_ipv4_datagrams(const std::string& netdev);

}  // namespace mesh::verbs

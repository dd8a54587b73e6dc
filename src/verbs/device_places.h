#pragma once
// Numbers the RDMA devices of a host in an order that hosts of one make agree about. Thread: any
// (pure). Bound: the list.

#include "src/verbs/provider.h"

#include <cstdint>
#include <span>
#include <vector>

namespace mesh::verbs {

// Returns the place of each device among all of them, by PCI address and then by name.
std::vector<std::uint16_t> device_places(std::span<const DeviceEntry> devices);

}  // namespace mesh::verbs

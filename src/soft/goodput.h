#pragma once
// The most payload that the links between two hosts of a fabric file let through. Thread: any
// (pure). Bound: the file's links.

#include "src/soft/fabric_file.h"

#include <optional>

namespace mesh::soft {

struct HostPair {
  int from = 0, to = 0;  // indices
};

// Returns the goodput in 10^9 bytes of payload a second, one way. MTU bytes of payload take MTU +
// 82 bytes on the wire (RoCE v2: Ethernet 38, IPv4 20, UDP 8, BTH 12, ICRC 4). A NIC slower than
// its cable counts with its own rate; two halves count with no more than their cable's. Returns no
// value if the hosts share no link, or one of their links has no rate.
std::optional<double> goodput_gbytes_per_s(const FabricFile& fabric, const HostPair& pair);

}  // namespace mesh::soft

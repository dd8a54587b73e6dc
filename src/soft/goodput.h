#pragma once
// What the links between two hosts of a fabric file let through at most, as payload. Thread: any
// (pure).

#include "src/soft/fabric_file.h"

#include <optional>

namespace mesh::soft {

struct HostPair {
  int from = 0, to = 0;  // indices
};

// 10^9 bytes of payload a second, one way: MTU bytes in MTU + 82 bytes of wire (RoCE v2: Ethernet's
// 38, IPv4 20, UDP 8, BTH 12, ICRC 4). A NIC slower than its cable counts with its own rate, two
// halves with no more than their cable's. Nothing: they share no link, or one has no rate.
std::optional<double> goodput_gbytes_per_s(const FabricFile& fabric, const HostPair& pair);

}  // namespace mesh::soft

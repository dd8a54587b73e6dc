#pragma once
// How a port of the software fabric shows its rate, MTU and link layer: by the codes of the
// verbs. Thread: any (pure). Bound: none.

#include "src/soft/fabric_file.h"

#include <infiniband/verbs.h>

#include <cstdint>

namespace mesh::soft {

// Writes the rate as a port shows it, by a speed and a width: the pair whose product is nearest to
// the link's rate.
void name_rate(double gbps, ibv_port_attr* attr);
double named_gbps(const LinkSpec* link);
ibv_mtu mtu_code(std::uint32_t bytes);
std::uint8_t layer_code(LinkLayer layer);

}  // namespace mesh::soft

#pragma once
// Reads the ports of the kernel's RDMA devices, and the PCI functions of network cards. Thread:
// any. Bound: the devices of the host.

#include "perf/mesh_doctor/host_facts.h"
#include "perf/mesh_doctor/tree.h"

namespace mesh::doctor {

std::vector<PortFacts> read_ports(const Tree& tree);
Counters read_counters(const Tree& tree, const PortFacts& port);
std::vector<PcieFacts> read_pcie(const Tree& tree, const std::vector<PortFacts>& ports);

// Returns the fastest link mode that the interface's driver supports, in Mb/s; -1 if it tells none.
int capable_mbps(const std::string& netdev);

}  // namespace mesh::doctor

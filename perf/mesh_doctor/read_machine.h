#pragma once
// Reads what concerns RDMA on a machine beside its network cards: limits, memory, IOMMU, GPUs.
// Thread: any. Bound: the PCI functions.

#include "perf/mesh_doctor/host_facts.h"
#include "perf/mesh_doctor/tree.h"

namespace mesh::doctor {

MachineFacts read_machine(const Tree& tree);

}  // namespace mesh::doctor

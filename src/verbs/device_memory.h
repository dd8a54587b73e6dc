#pragma once
// Whether the rails of this host reach the memory of GPUs. They are asked as NCCL's own transport
// asks its devices (gdr.cc): a DMA buffer with the descriptor -1, and the modules of peer memory.
// Thread: any, at start-up. Bound: the rails.

#include <mesh/config.h>

#include "src/verbs/discovery.h"
#include "src/verbs/provider.h"

#include <span>

namespace mesh::verbs {

// A region is registered on every rail of a link, so all rails are given what all of them can. One
// line for each says what that is, or why it is nothing. With NCCL_MESH_GDR=off nobody is asked,
// and nothing is said.
void find_device_memory(Provider& provider, const Settings& settings, std::span<Rail> rails);

}  // namespace mesh::verbs

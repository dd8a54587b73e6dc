#pragma once
// Finds whether the rails of this host reach the memory of GPUs. It asks as NCCL's own transport
// does (gdr.cc): it registers a DMA buffer with the descriptor -1, and looks for the modules of
// peer memory. Thread: any, at start-up. Bound: the rails.

#include <mesh/config.h>

#include "src/verbs/discovery.h"
#include "src/verbs/provider.h"

#include <span>

namespace mesh::verbs {

// Sets on every rail what all rails can do, because a region is registered on every rail of a link.
// One line for each rail says what it can do, and why not more. With NCCL_MESH_GDR=off no device is
// asked, and nothing is logged.
void find_device_memory(Provider& provider, const Settings& settings, std::span<Rail> rails);

}  // namespace mesh::verbs

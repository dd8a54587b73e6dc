#pragma once
// Finds what devices and the rails of this host can do: the few numbers from which a policy is
// derived, and whether they reach the memory of GPUs. Thread: any, at start-up. Bound: the rails.

#include <mesh/config.h>
#include <mesh/policy.h>

#include "src/verbs/discovery.h"

#include <cstdint>
#include <span>

namespace mesh::verbs {

FabricTraits traits_of(const char* fabric, std::span<const Rail> rails);

// Returns how many of the rails in `among`, a bit for each index, are one port with this rail: 2 if
// its cable is shown once for each PCIe half. The virtual functions of a port share its cable, too.
// The caller names the rails that meet one peer, as different adapters may have one GUID. GUID 0
// tells nothing.
std::uint32_t rails_of_cable(std::span<const Rail> rails, const Rail& rail,
                             std::uint64_t among) noexcept;

// Asks as NCCL's own transport does (gdr.cc): registers a DMA buffer with the descriptor -1, and
// looks for the modules of peer memory. A line of detail says what the rail can do. With
// NCCL_MESH_GDR=off the device is not asked, and nothing is logged.
void ask_device_memory(Provider& provider, const Settings& settings, Rail& rail);

// Sets on every rail what all rails can do, because a region is registered on every rail of a link.
// A line names each rail that can do more.
void level_device_memory(std::span<Rail> rails);

}  // namespace mesh::verbs

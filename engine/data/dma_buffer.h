#pragma once
// Prepares device memory for registration: finds its part of a DMA buffer, checks that this part is
// there, and logs why it cannot be registered. Thread: any, at registration. Bound: none.

#include <mesh/channel.h>
#include <mesh/engine.h>
#include <mesh/status.h>

#include "engine/data/registration.h"
#include "src/verbs/provider.h"

#include <cstdint>
#include <string>

namespace mesh::engine {

// Returns the part to register. The kernel wants offset and address equally far into their pages.
// If they are not, the part begins with the page of its address, as in NCCL's own transport.
verbs::DmaBufferRange range_in_buffer(const MemoryRange& range, std::uint64_t page_bytes) noexcept;

// Keeps a duplicate of the range's descriptor in the entry; without a descriptor it does nothing.
// Returns InvalidArgument if the descriptor is not open or has no such part, System if no
// descriptor is left. Each logs one line.
Status keep_buffer(const MemoryRange& range, Registration& entry);

// Returns false if the rail cannot register device memory; one line says why.
bool takes_device_memory(const Registration& entry, const RailInfo& rail);
void tell_device_refusal(const Registration& entry, const std::string& rail, int error);

}  // namespace mesh::engine

#pragma once
// Device memory on its way into a registration: which part of a DMA buffer it is, whether that part
// is there, and what to say where it is not. Thread: any, at registration. Bound: none.

#include <mesh/channel.h>
#include <mesh/engine.h>
#include <mesh/status.h>

#include "engine/data/registration.h"
#include "src/verbs/provider.h"

#include <cstdint>
#include <string>

namespace mesh::engine {

// The kernel wants offset and address equally far into their pages. Where they are not, the range
// begins with the page of its address, as NCCL's own transport registers it.
verbs::DmaBufferRange range_in_buffer(const MemoryRange& range, std::uint64_t page_bytes) noexcept;

// Keeps a duplicate of the range's descriptor in the entry; without a descriptor it does nothing.
// InvalidArgument: it is not open, or has no such part. System: there is no descriptor left. Each
// says one line.
Status keep_buffer(const MemoryRange& range, Registration& entry);

// False: the rail does not, and one line said why.
bool takes_device_memory(const Registration& entry, const RailInfo& rail);
void tell_device_refusal(const Registration& entry, const std::string& rail, int error);

}  // namespace mesh::engine

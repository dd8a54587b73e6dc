#pragma once
// Passes our log lines to NCCL's logger. The process has one: NCCL gives the same at every init.
// Thread: any. Bound: one logger.

#include "plugin/nccl/types.h"

namespace mesh::plugin {

// Null changes nothing. Lines go to stderr until there is a logger.
void use_logger(ncclDebugLogger_t logger) noexcept;
// For the exit of the process, when NCCL's own state may be gone.
void drop_logger() noexcept;
// The same, and no thread is in the logger afterwards: NCCL may go.
void quiet_logger() noexcept;

}  // namespace mesh::plugin

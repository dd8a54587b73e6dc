#pragma once
// Our log lines into NCCL's log. The logger is the process's: NCCL gives the same one at every
// init. Thread: any.

#include "plugin/nccl/types.h"

namespace mesh::plugin {

void use_logger(
    ncclDebugLogger_t logger) noexcept;  // null: whatever was used stays, stderr at first
void drop_logger() noexcept;             // at exit, when NCCL's own state may be gone

}  // namespace mesh::plugin

#pragma once
// The one place where our errors become NCCL's codes. Thread: any (pure). Bound: none.

#include <mesh/status.h>

#include "plugin/nccl/types.h"

namespace mesh::plugin {

// For callers of v6 and later, which know ncclRemoteError. WouldBlock is no error and becomes
// ncclSuccess; the caller leaves its output null or 0 to say "not yet".
ncclResult_t to_result(Errc code) noexcept;

// Callers of v5 (NCCL 2.12) know no code above ncclInvalidUsage.
constexpr ncclResult_t without_remote_error(ncclResult_t result) noexcept {
  return result > ncclInvalidUsage ? ncclSystemError : result;
}

}  // namespace mesh::plugin

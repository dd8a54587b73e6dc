#pragma once
// What NCCL is told about a rail: every field of every version, since NCCL reads them from memory
// it never cleared. Thread: any; locks while it copies a name. Bound: strings are kept once each
// for the life of the process, because NCCL keeps the pointers beyond finalize.

#include <mesh/engine.h>

#include "plugin/nccl/net_v12.h"
#include "plugin/nccl/net_v5.h"
#include "plugin/nccl/net_v7.h"
#include "plugin/nccl/net_v8.h"

namespace mesh::plugin {

inline constexpr int kDevicesMax =
    128;  // NCCL indexes arrays of 128 by device, unchecked (proxy.h)

ncclNetProperties_v12_t properties_of(const RailInfo& rail, int device);

// Older versions: the same values in fewer fields.
ncclNetProperties_v11_t to_v11(const ncclNetProperties_v12_t& properties) noexcept;
ncclNetProperties_v9_t to_v9(const ncclNetProperties_v12_t& properties) noexcept;  // v10 too
ncclNetProperties_v8_t to_v8(const ncclNetProperties_v12_t& properties) noexcept;
ncclNetProperties_v7_t to_v7(const ncclNetProperties_v12_t& properties) noexcept;
ncclNetProperties_v5_t to_v5(const ncclNetProperties_v12_t& properties) noexcept;  // v6 too

}  // namespace mesh::plugin

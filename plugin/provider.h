#pragma once
// Opens the fabric that NCCL_MESH_FABRIC names. Thread: any, at the first init. Bound: none.

#include <mesh/config.h>
#include <mesh/status.h>

#include "src/verbs/provider.h"

#include <memory>
#include <string>

namespace mesh::plugin {

// Returns NotFound, after one INFO line, if this host has no such fabric (no libibverbs);
// `no_rdma`, if it is not null, gets the reason. Other errors come after a WARN line.
Result<std::unique_ptr<verbs::Provider>> open_provider(const Settings& settings,
                                                       std::string* no_rdma = nullptr);

}  // namespace mesh::plugin

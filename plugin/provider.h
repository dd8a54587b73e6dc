#pragma once
// Opens the fabric that NCCL_MESH_FABRIC names.
// Thread: any, at the first init.

#include <mesh/config.h>
#include <mesh/status.h>

#include "src/verbs/provider.h"

#include <memory>

namespace mesh::plugin {

// NotFound: this host has no such fabric (no libibverbs); one INFO line said so. Other errors had
// their WARN line.
Result<std::unique_ptr<verbs::Provider>> open_provider(const Settings& settings);

}  // namespace mesh::plugin

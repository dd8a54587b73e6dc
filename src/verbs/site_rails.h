#pragma once
// Marks the rails of this host that leave its site, as NCCL_MESH_SITE_RAILS says. Thread: any, at
// start-up. Bound: the rails.

#include <mesh/config.h>
#include <mesh/status.h>

#include "src/verbs/discovery.h"

#include <span>

namespace mesh::verbs {

// Returns InvalidArgument if an entry names no rail or the host has no site; one line says what
// there is.
Status mark_site_rails(std::span<Rail> rails, const Settings& settings);

}  // namespace mesh::verbs

#pragma once
// Which rails of this host leave its site, as NCCL_MESH_SITE_RAILS says. Thread: any, at start-up.
// Bound: the rails.

#include <mesh/config.h>
#include <mesh/status.h>

#include "src/verbs/discovery.h"

#include <span>

namespace mesh::verbs {

// InvalidArgument: an entry names no rail, or the host has no site; one line says what there is.
Status mark_site_rails(std::span<Rail> rails, const Settings& settings);

}  // namespace mesh::verbs

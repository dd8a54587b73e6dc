#pragma once
// Asks a loaded plugin for its rails, as NCCL does at start-up, and adds what its lines tell.
// Thread: one owner; the lines are those of PluginLog. Bound: the plugin's devices.

#include "perf/driver/net_api.h"
#include "perf/mesh_rails/report.h"

namespace mesh::rails {

// Returns a result of NCCL. A plugin that refuses to start is no failure: it has no rails, and the
// report or the log has the reason.
int read_rails(driver::NetApi& api, Report& report);

}  // namespace mesh::rails

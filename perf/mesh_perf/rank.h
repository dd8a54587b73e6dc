#pragma once
// One rank of mesh_perf: loads the plugin, connects, measures, and tells rank 0. Thread: main.

#include "perf/mesh_perf/options.h"

namespace mesh::perf {

// Returns the exit status: 0 success, 1 error, 3 wrong data.
int run_rank(const Options& options);

}  // namespace mesh::perf

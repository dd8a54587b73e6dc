#pragma once
// The launching side of mesh_perf: one process per host of the fabric file, all of them taken down
// again whatever happens. Thread: main.

#include "perf/mesh_perf/options.h"

namespace mesh::perf {

// Returns the exit status of the whole run.
int launch_ranks(const Options& options, int argc, char** argv);

}  // namespace mesh::perf

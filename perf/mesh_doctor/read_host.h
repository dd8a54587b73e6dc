#pragma once
// Reads the facts of the host that this process runs on: the plugin's rails, and the files below
// the options' root. Thread: one owner. Bound: the files of the host.

#include "perf/mesh_doctor/host_facts.h"
#include "perf/mesh_doctor/options.h"
#include "perf/mesh_doctor/tree.h"
#include "src/base/config.h"

#include <optional>

namespace mesh::doctor {

HostFacts read_host(const Options& options);

// Reads the error counters once more, into counters_later.
void read_again(const Options& options, HostFacts& facts);

// Reads the files alone, without the plugin.
void read_files(const Tree& tree, const Environment& environment, HostFacts& facts);

}  // namespace mesh::doctor

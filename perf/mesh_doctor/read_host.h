#pragma once
// Reads the facts of the host that this process runs on: the plugin's rails, and the files below
// the options' root. Thread: one owner. Bound: the files of the host.

#include "perf/mesh_doctor/host_facts.h"
#include "perf/mesh_doctor/options.h"

namespace mesh::doctor {

HostFacts read_host(const Options& options);

// Reads once more what moves, into the `..._later` of the facts.
void read_again(const Options& options, HostFacts& facts);

}  // namespace mesh::doctor

#pragma once
// Reads which NCCL and which network plugin a job started from this environment would take, and
// what is set for them. No library is loaded. Thread: any. Bound: the files that are looked at.

#include "perf/mesh_doctor/host_facts.h"
#include "perf/mesh_doctor/tree.h"
#include "src/base/config.h"

#include <string>

namespace mesh::doctor {

// Returns the environment with what nccl.conf adds to it, as NCCL does at its start.
Environment with_conf_files(const Tree& tree, Environment environment);

// Returns the plugin that a job would load, if that is nccl-mesh; or else the one beside this tool.
std::string plugin_of_job(const Tree& tree, const Environment& environment);

SoftwareFacts read_software(const Tree& tree, const Environment& environment);

}  // namespace mesh::doctor

#pragma once
// Asks the plugin for the rails of this host. Thread: one owner. Bound: the plugin's devices.

#include "perf/mesh_doctor/host_facts.h"

#include <string>

namespace mesh::doctor {

// Fills the plugin's part of the facts: its name or why there is none, its rails and its notes.
void read_rails(const std::string& plugin_file, HostFacts& facts);

}  // namespace mesh::doctor

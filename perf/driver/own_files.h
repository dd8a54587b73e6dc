#pragma once
// Finds the files of a tool: in the build tree that it lies in, or beside its folder, where an
// installation puts them. Thread: any.

#include <string>

namespace mesh::driver {

// Returns the plugin's library, or its bare name for the loader if neither place has it.
std::string own_plugin_file();

// Returns a file of perf/fabrics, or its path in the build tree if neither place has it.
std::string own_fabric_file(const std::string& name);

}  // namespace mesh::driver

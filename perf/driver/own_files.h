#pragma once
// Where a tool finds what belongs to it: in the build tree that it lies in, or beside its folder
// where an installation puts things. Thread: any.

#include <string>

namespace mesh::driver {

// The plugin's library. Its bare name where neither place has it: the loader looks then.
std::string own_plugin_file();

// A file of perf/fabrics. The path of the build tree where neither place has it.
std::string own_fabric_file(const std::string& name);

}  // namespace mesh::driver

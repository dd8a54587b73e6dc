#pragma once
// Finds the folders in which the Python of an environment looks for packages, without running it.
// Thread: any. Bound: the folders of one Python.

#include "perf/mesh_doctor/tree.h"
#include "src/base/config.h"

#include <string>
#include <vector>

namespace mesh::doctor {

// Returns the folders in Python's order; empty if there is no python3 in PATH.
std::vector<std::string> python_folders(const Tree& tree, const Environment& environment);

}  // namespace mesh::doctor

#pragma once
// The libraries that a job would load if it started here: where the dynamic loader and Python find
// them, and what they say of themselves in their texts. No library is loaded and no Python is run.
// Thread: any. Bound: the loader's cache, the folders of one Python, one pass over a mapped file.

#include "perf/mesh_doctor/host_facts.h"
#include "perf/mesh_doctor/tree.h"
#include "src/base/config.h"

#include <optional>
#include <string>
#include <vector>

namespace mesh::doctor {

// Looks for a name without a slash in LD_LIBRARY_PATH, the loader's cache, and the folders that
// every loader knows. A name with a slash is a path.
std::optional<LibraryFacts> find_library(const Tree& tree, const Environment& environment,
                                         const std::string& name);

// Returns the first existing path for a name in the text of /etc/ld.so.cache; empty if none exists.
std::string find_in_cache(const Tree& tree, const std::string& cache, const std::string& name);

// Returns the folders in which Python looks for packages, in its order; empty if there is no
// python3 in PATH.
std::vector<std::string> python_folders(const Tree& tree, const Environment& environment);

std::string nccl_version(const std::string& file);  // "2.28.9"; empty: it does not tell
bool is_our_plugin(const std::string& file);

}  // namespace mesh::doctor

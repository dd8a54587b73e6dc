#pragma once
// The libraries that a job would load if it started here: where the dynamic loader and Python find
// them, and what they say of themselves in their texts. No library is loaded and no Python is run.
// Thread: any. Bound: the loader's cache, the folders of one Python, one pass over a mapped file.

#include "perf/mesh_doctor/host_facts.h"
#include "perf/mesh_doctor/tree.h"
#include "src/base/config.h"

#include <array>
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
using NcclVersion = std::array<int, 3>;
NcclVersion version_numbers(const std::string& text);  // "2.28.9" as {2, 28, 9}; missing parts: 0
// Returns true if an empty NCCL_NET_PLUGIN means "none", as it does for NCCL from 2.27 on, and
// false if it means that the variable is not set. A host whose NCCL is not known has a new one.
bool takes_empty_for_none(const std::vector<LibraryFacts>& nccl);
bool is_our_plugin(const std::string& file);

}  // namespace mesh::doctor

#pragma once
// Finds a library as the dynamic loader of a host does for a program that names it. Thread: any.
// Bound: the cache of the loader.

#include "perf/mesh_doctor/host_facts.h"
#include "perf/mesh_doctor/tree.h"
#include "src/base/config.h"

#include <optional>
#include <string>

namespace mesh::doctor {

// Looks for a name without a slash in LD_LIBRARY_PATH, the loader's cache, and the folders that
// every loader knows. A name with a slash is a path.
std::optional<LibraryFacts> find_library(const Tree& tree, const Environment& environment,
                                         const std::string& name);

// Returns the first existing path for a name in the text of /etc/ld.so.cache; empty if none exists.
std::string find_in_cache(const Tree& tree, const std::string& cache, const std::string& name);

}  // namespace mesh::doctor

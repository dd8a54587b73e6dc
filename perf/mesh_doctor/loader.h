#pragma once
// Where the dynamic loader of a host finds a library that a program asks for by name. Thread: any.
// Bound: the cache of the loader.

#include "perf/mesh_doctor/host_facts.h"
#include "perf/mesh_doctor/tree.h"
#include "src/base/config.h"

#include <optional>
#include <string>

namespace mesh::doctor {

// The name has no slash, or it is a path. Without: LD_LIBRARY_PATH, the loader's cache, and the
// folders that every loader knows.
std::optional<LibraryFacts> find_library(const Tree& tree, const Environment& environment,
                                         const std::string& name);

// The first path for a name in the text of /etc/ld.so.cache that is there. Empty: none.
std::string find_in_cache(const Tree& tree, const std::string& cache, const std::string& name);

}  // namespace mesh::doctor

#pragma once
// Names a path in a log line. Thread: any that may read the path's name.

#include "engine/data/path.h"

#include <cstddef>
#include <string>

namespace mesh::engine {

// Returns the path's name and the hosts on the way. The name has its addresses if the line, with so
// many bytes beside the path, then fits in a log line.
std::string path_text(const Path& path, std::size_t bytes_beside);

// Returns "host b" of "b", and "hosts b and c" of "b and c", as the way of a relayed path is named.
std::string hosts_named(const std::string& names);

}  // namespace mesh::engine

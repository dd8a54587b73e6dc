#pragma once
// Result files: JSON, versioned, checked as a whole when read. README.md in this folder has the
// format. Thread: any.

#include "perf/results/result.h"

#include <optional>
#include <string>

namespace mesh::results {

std::string to_json(const File& file);
// Nothing: `why` says in one line what is wrong, where, and what would be right.
std::optional<File> from_json(const std::string& text, std::string& why);

// False: `why` says why not, with the path.
bool write_file(const std::string& path, const File& file, std::string& why);
std::optional<File> read_file(const std::string& path, std::string& why);

// This machine, as far as it tells.
Place this_place();

}  // namespace mesh::results

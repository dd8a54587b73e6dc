#pragma once
// Result files are versioned JSON; README.md in this folder has the format. The programs in C++
// write them, and perf/suite/results.py reads them. Thread: any.

#include "perf/results/result.h"

#include <string>

namespace mesh::results {

std::string to_json(const File& file);

// Returns false if the file cannot be written; `why` says why not, with the path.
bool write_file(const std::string& path, const File& file, std::string& why);

// Returns this machine's facts, as far as it tells them.
Place this_place();

}  // namespace mesh::results

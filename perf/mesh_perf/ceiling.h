#pragma once
// What the links of a fabric file let through at most, as payload. Thread: any.

#include "perf/collectives/collective.h"

#include <optional>
#include <string>
#include <vector>

namespace mesh::perf {

// 10^9 bytes a second of bus bandwidth for this operation between these hosts (by rank; none: all
// of the file): the sum of the links between two hosts, of the worst such pair that the operation
// needs (src/soft/goodput.h). Nothing where a link has no rate, or the file says nothing.
std::optional<double> link_ceiling(const std::string& fabric_file,
                                   const std::vector<std::string>& hosts, Kind kind);

}  // namespace mesh::perf

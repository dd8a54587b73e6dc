#pragma once
// The most payload that the links of a fabric file let through. Thread: any.

#include "perf/collectives/collective.h"

#include <optional>
#include <string>
#include <vector>

namespace mesh::perf {

// Returns the bus bandwidth for this operation between these hosts, in 10^9 bytes a second. The
// hosts are by rank; none means all of the file. The result is the sum of the links between two
// hosts, for the worst pair that the operation needs (src/soft/goodput.h). Returns nothing if a
// link or the whole file has no rate, or no single link bounds the operation.
std::optional<double> link_ceiling(const std::string& fabric_file,
                                   const std::vector<std::string>& hosts, Kind kind);

}  // namespace mesh::perf

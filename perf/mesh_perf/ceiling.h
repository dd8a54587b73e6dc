#pragma once
// The yardsticks of a run: the most payload that the links of a fabric file let through, and, for a
// fabric that lives in memory, how fast one thread of this host copies. Thread: any.

#include "perf/collectives/collective.h"
#include "src/soft/wire_model.h"

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace mesh::perf {

// Returns the bus bandwidth for this operation between these hosts, in 10^9 bytes a second. The
// hosts are by rank; none means all of the file. The result is the sum of the links between two
// hosts, for the worst pair that the operation needs (src/soft/fabric_file.h). Returns nothing if a
// link or the whole file has no rate, or no single link bounds the operation.
std::optional<soft::Goodput> link_ceiling(const std::string& fabric_file,
                                          const std::vector<std::string>& hosts, Kind kind);

// Returns the best of several rounds over eight slots of the size, as the connections use them, in
// 10^9 bytes a second; 0 without memory.
double measure_memcpy(std::size_t block_bytes);

}  // namespace mesh::perf

#pragma once
// The yardstick of a fabric that lives in memory: how fast one thread of this host copies blocks of
// a size. Thread: any.

#include <cstddef>

namespace mesh::perf {

// Returns the best of several rounds over eight slots of the size, as the connections use them, in
// 10^9 bytes a second; 0 without memory.
double measure_memcpy(std::size_t block_bytes);

}  // namespace mesh::perf

#pragma once
// How fast the world is in which a test runs: sanitizers and emulated machines take their time. Bars on time are scaled, and
// where data is what takes long there is less of it; what is checked stays the same.
// Thread: any.

#include "perf/driver/communicator.h"

#include <cstddef>
#include <cstdint>

namespace mesh::e2e {

inline constexpr driver::milliseconds kPatience{20000};  // where nothing is slow

// MESH_LAB: hosts are emulated machines (some 30 MB/s, 300 us).
bool emulated();

double slowness();  // 1 where nothing is slow
driver::milliseconds scaled(driver::milliseconds time);
inline driver::milliseconds patience() { return scaled(kPatience); }

// A tenth of the repetitions between emulated machines, but not below four.
std::uint64_t trimmed(std::uint64_t count);
// The largest size worth its time.
std::size_t largest(std::size_t bytes, std::size_t when_emulated);

}  // namespace mesh::e2e

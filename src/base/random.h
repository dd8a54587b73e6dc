#pragma once
// Unique names: 128 random bits from the kernel. Throws if the kernel has none. For the control
// path only, because it makes a system call. Thread: any. Bound: none.

#include <array>
#include <cstdint>

namespace mesh {

std::array<std::uint8_t, 16> random_id();
std::uint64_t random_u64();

}  // namespace mesh

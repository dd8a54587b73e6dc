#pragma once
// Names that nobody else has: 128 random bits from the kernel. Throws where the kernel has none.
// Thread: any. Control path only (a system call).

#include <array>
#include <cstdint>

namespace mesh {

std::array<std::uint8_t, 16> random_id();
std::uint64_t random_u64();

}  // namespace mesh

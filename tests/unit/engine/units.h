#pragma once
// Units of time and memory, for tests of the engine. Thread: any.

#include "tests/prelude.h"

namespace mesh::testkit {

inline constexpr std::uint64_t kMs = 1'000'000, kSecond = 1000 * kMs;  // in ns
inline constexpr std::size_t kKiB = 1024;

}  // namespace mesh::testkit

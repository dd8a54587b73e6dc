#pragma once
// The bound of a wait in tests of the driver: long enough for a busy machine, since only what hangs
// reaches it. Thread: any.

#include <chrono>

namespace mesh::driver {

inline constexpr std::chrono::milliseconds kPatience{60000};

}  // namespace mesh::driver

#pragma once
// The time-out of a wait in tests of the driver. It is long enough for a busy machine, because only
// a hang reaches it. Thread: any.

#include <chrono>

namespace mesh::driver {

inline constexpr std::chrono::milliseconds kPatience{60000};

}  // namespace mesh::driver

#pragma once
// The random 128-bit name of a link, of a context or of a listener.
// Thread: any (values).

#include <array>
#include <cstdint>

namespace mesh::engine {

using Id128 = std::array<std::uint8_t, 16>;  // from getrandom

}  // namespace mesh::engine

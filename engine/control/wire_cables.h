#pragma once
// The cables between two hosts as frames tell them. Thread: any (values). Bound: kRailsMax rails of
// each host.

#include "engine/control/wire_values.h"

#include <cstddef>
#include <cstdint>

namespace mesh::engine {

inline constexpr std::size_t kWireCablesBytesMax = 1 + (1 + 8 + 8) * kRailsMax;

// The cables of one rail to a host, where datagrams have told them. Each bit is a rail of that
// host.
struct WireCables {
  std::uint8_t rail = 0;
  std::uint64_t asked = 0, met = 0;  // pairs that were asked, and those that are on one wire
  friend bool operator==(const WireCables&, const WireCables&) = default;
};
static_assert(kRailsMax <= 64, "a rail is a bit");

void cables_fields(auto& io, auto& cables) {
  io.list(cables, {0, kRailsMax}, [&io](auto& each) {
    io.u8(each.rail, {0, kRailsMax - 1});
    io.u64(each.asked);
    io.u64(each.met);
  });
}

}  // namespace mesh::engine

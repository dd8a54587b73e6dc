#pragma once
// Asks the kernel by which net device this host would send from one address to another
// (rtnetlink(7), RTM_GETROUTE). Thread: any. Bound: two questions; the kernel replies at once from
// its tables, and nothing goes onto the wire.

#include "src/verbs/provider.h"

#include <cstddef>
#include <optional>
#include <span>

namespace mesh::verbs {

// Returns the route from a GID with its net device to a peer's GID.
Route kernel_route(const GidEntry& from, const ibv_gid& to);

// The contents of one answer of the kernel; declared here for tests.
struct RouteAnswer {
  int error = 0;         // an errno value: there is no route
  bool unicast = false;  // not a route that drops or refuses
  bool through_oif =
      false;             // by the device that was asked for, or one of several of which it is one
  int oif = 0;           // where it leaves; 0: several
  bool guessed = false;  // the kernel found no route and took the peer for a neighbour
};
// Returns no value if the bytes are malformed.
std::optional<RouteAnswer> read_route_answer(std::span<const std::byte> bytes, int oif);

}  // namespace mesh::verbs

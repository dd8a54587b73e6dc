#pragma once
// Finds the hosts over which a rail of ours reaches a peer's rail that it does not meet. Each step
// of a route is a pair of rails that meet within a subnet and whose ports are up. Thread: any
// (pure). Bounds: kRouteHostsMax hosts on the way, out of at most kRelayHostsMax known hosts.

#include "engine/control/relay_frames.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace mesh::engine {

inline constexpr std::size_t kRouteHostsMax = 3;
inline constexpr std::size_t kRelayHostsMax = 64;

// A middle host: the near side faces us, the far side the peer.
struct RouteHop {
  WireHost host;
  std::uint8_t near_rail = 0, near_address = 0, far_rail = 0, far_address = 0;
};
struct RelayRoute {
  std::uint8_t own_address = 0;   // our rail's address towards the first middle host
  std::uint8_t peer_address = 0;  // the peer rail's address towards the last middle host
  std::vector<RouteHop> hops;
};
struct RouteWish {
  const std::vector<WireRail>& own;
  std::size_t own_rail = 0;
  const std::vector<WireRail>& peer;
  std::size_t peer_rail = 0;
  std::span<const WireHost> hosts;  // without us and the peer
};

// Returns the route over the fewest hosts; of several, the route whose slowest port is the fastest.
std::optional<RelayRoute> find_route(const RouteWish& wish);

std::string route_text(const RelayRoute& route);  // "b" or "b and c"

}  // namespace mesh::engine

#pragma once
// Finds the hosts over which we reach a peer: over all our rails, all of the peer's, and all rails
// of the hosts between. Each step of a route is a pair of rails that meet within a subnet and whose
// ports are up. Addresses tell what meets, and datagrams where addresses leave a choice; GUIDs do
// not count. Thread: any (pure). Bounds: kRouteHostsMax hosts on the way, out of at most
// kRelayHostsMax known hosts.

#include "engine/control/relay_frames.h"
#include "engine/link/relay/known_cables.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace mesh::engine {

class FailedSteps;

inline constexpr std::uint32_t kRouteHostsMax = 3;
inline constexpr std::size_t kRelayHostsMax = 64;

// A middle host: the near side faces us, the far side the peer.
struct RouteHop {
  WireHost host;
  std::uint8_t near_rail = 0, near_address = 0, far_rail = 0, far_address = 0;
};
struct RelayRoute {
  std::uint8_t own_rail = 0, own_address = 0;    // ours towards the first middle host
  std::uint8_t peer_rail = 0, peer_address = 0;  // the peer's towards the last middle host
  std::vector<RouteHop> hops;
};
// How many hosts may be on the way.
struct HostsBetween {
  std::uint32_t least = 1, most = kRouteHostsMax;
};
struct RouteWish {
  const std::vector<WireRail>& own;
  const std::vector<WireRail>& peer;
  std::uint64_t own_id = 0, peer_id = 0;  // as in HELLO
  std::span<const WireHost> hosts;        // known ones, without this process and the peer
  HostsBetween between{};
  std::optional<std::uint8_t> peer_rail{};  // the only rail of the peer that counts; empty: all do
  const FailedSteps* failed = nullptr;      // what has failed lately, if anything is known of it
  const KnownCables* cables = nullptr;      // null: addresses tell all
  Unproven unproven = Unproven::ByPlace;
  std::uint64_t spread = 0;  // which of equal routes it is; 0: the first. Spreads hosts' traffic
};

// Returns the route over the fewest hosts that the wish allows. Of several, it is the route that
// has failed longest ago or never, and then the one whose slowest port is the fastest. A process on
// our host or the peer's is no host between: the way to it and back would be a loop in a NIC. Its
// rails, or ours if they are fewer, all have addresses of the other process.
std::optional<RelayRoute> find_route(const RouteWish& wish);

// A link has `places` paths over other hosts, in the order of their use. Returns how many hosts the
// path at one of these places leads over: fewer at earlier places, so that no path over more hosts
// takes the link from one over fewer. With room for it, two places are for one host each, because
// the first host may be silent.
HostsBetween hosts_of_place(std::uint32_t place, std::uint32_t places);

std::string hosts_text(const HostsBetween& between);  // "1 host" or "1 to 3 hosts"
std::string route_text(const RelayRoute& route);      // "b" or "b and c"

}  // namespace mesh::engine

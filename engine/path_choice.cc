#include "engine/path_choice.h"

#include "src/base/socket.h"
#include "src/topo/pairing.h"

#include <algorithm>

namespace mesh::engine {

namespace {
std::vector<topo::RailEnd> rail_ends(const std::vector<WireRail>& rails) {
  std::vector<topo::RailEnd> ends;
  ends.reserve(rails.size());
  for (const WireRail& rail : rails) {
    topo::RailEnd& end = ends.emplace_back();
    for (const WireAddress& each : rail.addresses) end.addresses.push_back({.gid = each.gid, .prefix_len = each.prefix_len});
    end.ethernet = rail.ethernet != 0;
    end.speed_mbps = rail.speed_mbps;
  }
  return ends;
}
}  // namespace

std::vector<WirePath> choose_paths(const Hello& hello, const std::vector<WireRail>& own_rails) {
  std::vector<WirePath> paths;
  for (const topo::RailPair& pair :
       topo::pair_rails(rail_ends(hello.rails), rail_ends(own_rails), {.preferred_local = hello.preferred_rail})) {
    WirePath path;
    path.connector_rail = static_cast<std::uint8_t>(pair.local);
    path.connector_address = static_cast<std::uint8_t>(pair.local_address);
    path.acceptor_rail = static_cast<std::uint8_t>(pair.peer);
    path.acceptor_address = static_cast<std::uint8_t>(pair.peer_address);
    path.mtu = std::min(hello.rails[pair.local].mtu, own_rails[pair.peer].mtu);
    paths.push_back(path);
  }
  return paths;
}

std::string no_path_text(const Hello& hello, const std::vector<WireRail>& own_rails) {
  return topo::no_common_subnet_text(rail_ends(hello.rails), rail_ends(own_rails));
}

std::string address_text(const WireAddress& address) { return SocketAddress::from_gid(address.gid).text(); }

}  // namespace mesh::engine

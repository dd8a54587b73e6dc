#include "tests/sim/control_ways.h"

#include "src/verbs/gid_choice.h"

namespace mesh::sim {
namespace {
soft::NicRef ref_of(std::size_t host, std::size_t nic) {
  return {.host = static_cast<int>(host), .nic = static_cast<int>(nic)};
}
}  // namespace

SocketAddress ControlWays::address_of(const soft::NicRef& nic) const {
  return verbs::address_of(fabric_.nic(nic).gid);
}

std::vector<SocketAddress> ControlWays::addresses_of(std::size_t host) const {
  std::vector<SocketAddress> addresses;
  for (std::size_t nic = 0; nic < fabric_.hosts[host].nics.size(); ++nic)
    addresses.push_back(address_of(ref_of(host, nic)));
  return addresses;
}

bool ControlWays::meet(const soft::NicSpec& a, const soft::NicSpec& b) const {
  if (a.link < 0 || b.link < 0) return false;
  const int network = fabric_.links[static_cast<std::size_t>(a.link)].network;
  return a.link == b.link ||
         (network >= 0 && network == fabric_.links[static_cast<std::size_t>(b.link)].network);
}

std::optional<ControlWay> ControlWays::to(std::size_t host, const SocketAddress& address) const {
  for (std::size_t peer = 0; peer < fabric_.hosts.size(); ++peer) {
    for (std::size_t far = 0; far < fabric_.hosts[peer].nics.size(); ++far) {
      if (!address_of(ref_of(peer, far)).same_host(address)) continue;
      for (std::size_t near = 0; near < fabric_.hosts[host].nics.size(); ++near) {
        const ControlWay way{.near = ref_of(host, near), .far = ref_of(peer, far)};
        const bool self = peer == host && near == far;
        if (self || (peer != host && meet(fabric_.nic(way.near), fabric_.nic(way.far)))) return way;
      }
    }
  }
  return std::nullopt;
}

}  // namespace mesh::sim

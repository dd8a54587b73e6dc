#include "engine/link/relay/known_hosts.h"

#include <algorithm>

namespace mesh::engine {

namespace {
// Returns true if each rail has an address that one of the other rails has.
bool are_among(const std::vector<WireRail>& rails, const std::vector<WireRail>& other) {
  return std::all_of(rails.begin(), rails.end(), [&other](const WireRail& rail) {
    return std::any_of(other.begin(), other.end(), [&rail](const WireRail& each) {
      return std::find_first_of(rail.addresses.begin(), rail.addresses.end(),
                                each.addresses.begin(), each.addresses.end(),
                                [](const WireAddress& a, const WireAddress& b) {
                                  return a.gid == b.gid;
                                }) != rail.addresses.end();
    });
  });
}
}  // namespace

bool is_same_host(const std::vector<WireRail>& rails, const std::vector<WireRail>& other) {
  return are_among(rails, other) || are_among(other, rails);
}

void add_once(std::vector<WireHost>& hosts, const WireHost& host) {
  if (host.ticket == Id128{}) return;
  const auto known = std::find_if(hosts.begin(), hosts.end(), [&host](const WireHost& each) {
    return each.ticket == host.ticket;
  });
  if (known == hosts.end()) {
    if (hosts.size() < kRelayHostsMax) hosts.push_back(host);
    return;
  }
  if (known->port != host.port) return;
  for (const SocketAddress& address : host.addresses) {
    const auto is_it = [&address](const SocketAddress& each) { return each.same_host(address); };
    const auto& there = known->addresses;
    if (there.size() < kControlAddressesMax && std::none_of(there.begin(), there.end(), is_it))
      known->addresses.push_back(address);
  }
}

}  // namespace mesh::engine

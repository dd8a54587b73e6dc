#include "engine/link/relay/known_hosts.h"

#include <algorithm>

namespace mesh::engine {

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

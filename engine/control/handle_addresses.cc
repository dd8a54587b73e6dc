// Chooses the addresses of a host that mean something to others.
#include "engine/control/handle.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

namespace mesh::engine {

namespace {
// Returns true for a loopback address, and for the unspecified one, which Linux treats alike.
bool leads_to_oneself(const SocketAddress& named) {
  const SocketAddress address =
      named.family == AF_INET6 ? SocketAddress::from_gid(named.bytes) : named;
  const bool unspecified = address.family == AF_INET ? address.bytes[0] == 0
                                                     : address.bytes == decltype(address.bytes){};
  return unspecified || address.loopback();
}
}  // namespace

std::vector<SocketAddress> ways_back(std::vector<SocketAddress> named,
                                     const SocketAddress& source) {
  for (const SocketAddress& address : named) {
    if (address.same_host(source)) return {source};
  }
  if (!source.loopback()) std::erase_if(named, leads_to_oneself);
  if (named.empty()) named.push_back(source);
  return named;
}

std::vector<SocketAddress> ways_for_others(const std::vector<SocketAddress>& named,
                                           const SocketAddress& source) {
  std::vector<SocketAddress> ways = ways_back(named, source);
  for (const SocketAddress& address : named) {
    const auto is_it = [&address](const SocketAddress& each) { return each.same_host(address); };
    if (std::any_of(ways.begin(), ways.end(), is_it)) continue;
    if (source.loopback() || !leads_to_oneself(address)) ways.push_back(address);
  }
  return ways;
}

// The scope of an IPv6 link-local address means nothing on the peer's host, so such addresses are
// returned only if there are no others.
std::vector<SocketAddress> portable_addresses(std::span<const SocketAddress> addresses) {
  std::vector<SocketAddress> chosen;
  const auto usable = [](const SocketAddress& address) {
    return address.family == AF_INET || address.family == AF_INET6;
  };
  const auto needs_scope = [](const SocketAddress& address) {
    return address.family == AF_INET6 && address.link_local();
  };
  std::copy_if(
      addresses.begin(), addresses.end(), std::back_inserter(chosen),
      [&](const SocketAddress& address) { return usable(address) && !needs_scope(address); });
  if (chosen.empty())
    std::copy_if(addresses.begin(), addresses.end(), std::back_inserter(chosen), usable);
  return chosen;
}

}  // namespace mesh::engine

#include "src/base/name_rule.h"
#include "src/base/socket.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <memory>
#include <string_view>

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

namespace mesh {

namespace {
int prefix_of(const sockaddr* mask) {
  if (mask == nullptr) return -1;
  const SocketAddress bits = SocketAddress::from_sockaddr(mask);
  int ones = 0;
  for (std::uint8_t byte : bits.bytes) ones += std::popcount(byte);
  return ones;
}

bool family_matches(const SocketAddress& address, std::string_view family) {
  if (family == "AF_INET") return address.family == AF_INET;
  if (family == "AF_INET6") return address.family == AF_INET6;
  return address.family == AF_INET || address.family == AF_INET6;
}

// Docker names the bridge of a network so: "br-" and 12 hexadecimal digits. Other bridges that
// begin with "br-" may be a host's own network.
bool docker_network(std::string_view name) {
  constexpr std::string_view kPrefix = "br-";
  constexpr std::size_t kDigits = 12;
  return name.size() == kPrefix.size() + kDigits && name.starts_with(kPrefix) &&
         name.find_first_not_of("0123456789abcdef", kPrefix.size()) == std::string_view::npos;
}

// Bridges of containers and virtual machines are up on many hosts, often with one address on all of
// them, and lead to no other host of a job.
bool virtual_bridge(std::string_view name) {
  static constexpr std::string_view kPrefixes[] = {
      "docker", "podman", "virbr",   "lxc",    "lxdbr",  "veth",
      "cni",    "cali",   "flannel", "cilium", "tmfifo",  // tmfifo: to the host's own BlueField
  };
  return docker_network(name) ||
         std::any_of(std::begin(kPrefixes), std::end(kPrefixes),
                     [name](std::string_view prefix) { return name.starts_with(prefix); });
}

// Hosts may share nothing but such a tunnel, which is slower than any network under it.
bool tunnel(std::string_view name) { return name.starts_with("tailscale"); }

}  // namespace

std::vector<InterfaceAddress> all_interfaces() {
  ifaddrs* raw = nullptr;
  if (::getifaddrs(&raw) != 0) return {};
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> list(raw, ::freeifaddrs);
  std::vector<InterfaceAddress> result;
  for (const ifaddrs* entry = list.get(); entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0 ||
        (entry->ifa_flags & IFF_RUNNING) == 0)
      continue;
    const SocketAddress address = SocketAddress::from_sockaddr(entry->ifa_addr);
    if (address.family == AF_UNSPEC) continue;
    result.push_back({entry->ifa_name, address, prefix_of(entry->ifa_netmask)});
  }
  return result;
}

std::vector<InterfaceAddress> choose_interfaces(const std::vector<InterfaceAddress>& candidates,
                                                const InterfaceRule& rule) {
  const NameRule names(rule.names);
  // A rule that names an interface asks for it, whatever it is. An excluding rule asks for none in
  // particular.
  const bool named = !names.empty() && !names.excludes();
  std::vector<InterfaceAddress> chosen;
  std::vector<InterfaceAddress> tunnels;
  std::vector<InterfaceAddress> loopback;
  for (const InterfaceAddress& candidate : candidates) {
    if (!family_matches(candidate.address, rule.family) || !names.matches(candidate.name)) continue;
    if (named) {
      chosen.push_back(candidate);
    } else if (candidate.address.loopback()) {
      loopback.push_back(candidate);
    } else if (candidate.name != "lo" && !names.empty()) {
      chosen.push_back(candidate);
    } else if (candidate.name != "lo" && !virtual_bridge(candidate.name)) {
      (tunnel(candidate.name) ? tunnels : chosen).push_back(candidate);
    }
  }
  if (chosen.empty()) chosen = tunnels;
  if (chosen.empty()) chosen = loopback;
  std::stable_partition(chosen.begin(), chosen.end(),
                        [](const InterfaceAddress& entry) { return !entry.address.link_local(); });
  return chosen;
}

std::vector<InterfaceAddress> interfaces(const InterfaceRule& rule) {
  return choose_interfaces(all_interfaces(), rule);
}

}  // namespace mesh

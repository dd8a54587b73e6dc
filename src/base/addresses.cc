// Addresses of sockets, and those of this host's interfaces.
#include "src/base/socket.h"

#include "src/base/nccl_names.h"
#include "src/base/setting_grammar.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>
#include <memory>
#include <string_view>

#include <arpa/inet.h>
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

SocketAddress SocketAddress::any(std::uint16_t family) noexcept {
  SocketAddress address;
  address.family = family;
  return address;
}

SocketAddress SocketAddress::from_gid(const std::array<std::uint8_t, 16>& gid) noexcept {
  constexpr std::array<std::uint8_t, 12> kMapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  SocketAddress address = any(AF_INET6);
  address.bytes = gid;
  if (std::equal(kMapped.begin(), kMapped.end(), gid.begin())) {
    address = any(AF_INET);
    std::copy(gid.begin() + kMapped.size(), gid.end(), address.bytes.begin());
  }
  return address;
}

SocketAddress SocketAddress::from_sockaddr(const sockaddr* address) noexcept {
  SocketAddress result;
  if (address == nullptr) return result;
  if (address->sa_family == AF_INET) {
    result.family = AF_INET;
    std::memcpy(result.bytes.data(), &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, 4);
  } else if (address->sa_family == AF_INET6) {
    const auto* v6 = reinterpret_cast<const sockaddr_in6*>(address);
    result.family = AF_INET6;
    std::memcpy(result.bytes.data(), &v6->sin6_addr, 16);
    result.scope_id = v6->sin6_scope_id;
  }
  return result;
}

Result<SocketAddress> SocketAddress::from_text(std::string_view text) {
  const std::size_t percent = text.find('%');
  const std::string host(text.substr(0, percent));
  SocketAddress result;
  if (::inet_pton(AF_INET, host.c_str(), result.bytes.data()) == 1 &&
      percent == std::string_view::npos) {
    result.family = AF_INET;
    return result;
  }
  if (::inet_pton(AF_INET6, host.c_str(), result.bytes.data()) != 1) return Errc::InvalidArgument;
  result.family = AF_INET6;
  if (percent != std::string_view::npos) {
    result.scope_id = ::if_nametoindex(std::string(text.substr(percent + 1)).c_str());
    if (result.scope_id == 0) return Errc::NotFound;
  }
  return result;
}

std::string SocketAddress::text() const {
  char buffer[INET6_ADDRSTRLEN] = {};
  if ((family != AF_INET && family != AF_INET6) ||
      ::inet_ntop(family, bytes.data(), buffer, sizeof buffer) == nullptr)
    return "none";
  if (scope_id == 0) return buffer;
  char name[IF_NAMESIZE] = {};
  if (::if_indextoname(scope_id, name) != nullptr) return fmt::format("{}%{}", buffer, name);
  return fmt::format("{}%{}", buffer, scope_id);
}

std::string SocketAddress::text_with_port(std::uint16_t port) const {
  return family == AF_INET6 ? fmt::format("[{}]:{}", text(), port)
                            : fmt::format("{}:{}", text(), port);
}

socklen_t SocketAddress::to_sockaddr(std::uint16_t port, sockaddr_storage& out) const noexcept {
  out = {};
  if (family == AF_INET) {
    auto& v4 = reinterpret_cast<sockaddr_in&>(out);
    v4.sin_family = AF_INET;
    v4.sin_port = htons(port);
    std::memcpy(&v4.sin_addr, bytes.data(), 4);
    return sizeof v4;
  }
  if (family != AF_INET6) return 0;
  auto& v6 = reinterpret_cast<sockaddr_in6&>(out);
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(port);
  std::memcpy(&v6.sin6_addr, bytes.data(), 16);
  v6.sin6_scope_id = scope_id;
  return sizeof v6;
}

bool SocketAddress::link_local() const noexcept {
  if (family == AF_INET) return bytes[0] == 169 && bytes[1] == 254;
  return family == AF_INET6 && bytes[0] == 0xfe && (bytes[1] & 0xc0) == 0x80;
}

bool SocketAddress::same_host(const SocketAddress& other) const noexcept {
  return family == other.family && bytes == other.bytes;
}

bool SocketAddress::loopback() const noexcept {
  if (family == AF_INET) return bytes[0] == 127;
  if (family != AF_INET6) return false;
  std::array<std::uint8_t, 16> one{};
  one[15] = 1;
  return bytes == one;
}

std::vector<InterfaceAddress> all_interfaces(Carrier carrier) {
  ifaddrs* raw = nullptr;
  if (::getifaddrs(&raw) != 0) return {};
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> list(raw, ::freeifaddrs);
  std::vector<InterfaceAddress> result;
  for (const ifaddrs* entry = list.get(); entry != nullptr; entry = entry->ifa_next) {
    const bool runs = (entry->ifa_flags & IFF_UP) != 0 && (entry->ifa_flags & IFF_RUNNING) != 0;
    if (entry->ifa_addr == nullptr || (carrier == Carrier::Running && !runs)) continue;
    const SocketAddress address = SocketAddress::from_sockaddr(entry->ifa_addr);
    if (address.family == AF_UNSPEC) continue;
    result.push_back({entry->ifa_name, address, prefix_of(entry->ifa_netmask)});
  }
  return result;
}

std::vector<InterfaceAddress> choose_interfaces(const std::vector<InterfaceAddress>& candidates,
                                                const InterfaceRule& rule) {
  const NameRule names(socket_names(rule.names));
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

#pragma once
// TCP for the control path: addresses as values, and sockets. The sockets never block, close on
// exec and in forked children, send at once, and notice a dead host in about 20 s. On an error
// errno stays as the kernel set it, for the caller's one line. Thread: any. Bound: none.

#include <mesh/status.h>

#include "src/base/unique_fd.h"

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <sys/socket.h>

namespace mesh {

struct SocketAddress {
  std::uint16_t family = AF_UNSPEC;      // AF_INET, AF_INET6, or AF_UNSPEC for none
  std::array<std::uint8_t, 16> bytes{};  // network order; IPv4 in the first four
  std::uint32_t scope_id = 0;  // our interface of a link-local IPv6 address; no use to the peer

  friend bool operator==(const SocketAddress&, const SocketAddress&) = default;

  static SocketAddress any(std::uint16_t family) noexcept;
  static SocketAddress from_gid(
      const std::array<std::uint8_t, 16>& gid) noexcept;                 // IPv4-mapped becomes IPv4
  static SocketAddress from_sockaddr(const sockaddr* address) noexcept;  // another family: none
  static Result<SocketAddress> from_text(std::string_view text);  // "10.0.0.1", "fe80::1%eth0"

  std::string text() const;                              // "10.0.0.1", "fe80::1%eth0", "none"
  std::string text_with_port(std::uint16_t port) const;  // "10.0.0.1:4711", "[fe80::1%eth0]:4711"
  socklen_t to_sockaddr(std::uint16_t port, sockaddr_storage& out) const noexcept;  // 0: none
  bool link_local() const noexcept;
  // Returns true if both are addresses of one host, by whatever interface each is reached.
  bool same_host(const SocketAddress& other) const noexcept;
  bool loopback() const noexcept;
};

// Listens there. For port 0 the kernel picks a port, which local_port tells.
Result<UniqueFd> tcp_listen(const SocketAddress& address, std::uint16_t port);
Result<std::uint16_t> local_port(int fd);

// Starts to connect. The socket may not be connected yet: wait until it is writable, then ask
// tcp_connect_result. Both return Unreachable if the connect was refused, found no route or timed
// out, and System for anything else.
Result<UniqueFd> tcp_connect_start(const SocketAddress& address, std::uint16_t port);
Status tcp_connect_result(int fd);  // WouldBlock: it is still under way

struct AcceptedSocket {
  UniqueFd fd;
  SocketAddress peer;
  std::uint16_t peer_port = 0;
};
// Returns WouldBlock if no connection waits, or the one that waited has gone.
Result<AcceptedSocket> tcp_accept(int listener);

struct InterfaceAddress {
  std::string name;
  SocketAddress address;
  int prefix_len = -1;
};
struct InterfaceRule {
  // NCCL_SOCKET_IFNAME. Empty: everything but lo and the bridges of containers and virtual machines
  // (docker*, br-<id>, virbr*, lxc*, cni* and others); tailscale* if nothing else is up, then lo.
  std::string_view names = {};
  std::string_view family = {};  // NCCL_SOCKET_FAMILY: AF_INET, AF_INET6, or empty for both
};
enum class Carrier { Running, Any };
// Returns every address of every interface that is up and running, or of every interface.
std::vector<InterfaceAddress> all_interfaces(Carrier carrier = Carrier::Running);
// Returns the addresses that the rule chooses, in the kernel's order but link-local ones last, or
// none.
std::vector<InterfaceAddress> interfaces(const InterfaceRule& rule);

// Chooses among the given candidates as interfaces() does, for tests and callers that have a list.
std::vector<InterfaceAddress> choose_interfaces(const std::vector<InterfaceAddress>& candidates,
                                                const InterfaceRule& rule);

}  // namespace mesh

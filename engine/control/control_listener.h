#pragma once
// The listening sockets and the addresses at which peers find it, by NCCL_SOCKET_IFNAME's and
// NCCL_SOCKET_FAMILY's rules. Thread: the owner of the control plane. Bound: kListenAddressesMax
// addresses.

#include <mesh/status.h>

#include "engine/control/control_plane.h"
#include "src/base/socket.h"
#include "src/base/unique_fd.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace mesh::engine {

inline constexpr std::size_t kListenAddressesMax = 8;

struct ControlListener {
  std::vector<UniqueFd> fds;  // one for each address: nobody else's door is opened
  std::uint16_t port = 0;
  std::vector<SocketAddress> addresses;  // the bootstrap interface's first
};

// To be dialed: a link-local IPv6 address, which means nothing without an interface, gets those of
// `listening`, or where none of these is such an address, every interface that has one. At most
// kScopesMax of them.
inline constexpr std::size_t kScopesMax = 8;
std::vector<SocketAddress> with_scopes(std::span<const SocketAddress> addresses,
                                       std::span<const SocketAddress> listening);

// Listens on as many of these as it can, with one line for each that it cannot. System: on none.
Result<ControlListener> listen_on(std::span<const InterfaceAddress> interfaces);

// NotFound: no interface fits the rules. System: the kernel refused. Both logged.
Result<ControlListener> open_listener(const ControlPlaneOptions& options);

}  // namespace mesh::engine

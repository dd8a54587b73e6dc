#pragma once
// The listening sockets, and the addresses at which peers find them. NCCL_SOCKET_IFNAME and
// NCCL_SOCKET_FAMILY choose the interfaces. Thread: the owner of the control plane. Bound:
// kListenAddressesMax addresses.

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
  std::vector<UniqueFd> fds;  // one for each address, so that no other address is opened
  std::uint16_t port = 0;
  std::vector<SocketAddress> addresses;  // the bootstrap interface's come first
};

// Prepares addresses for dialing. A link-local IPv6 address means nothing without an interface: it
// is repeated for the interface of each such address in `listening`, or, if there is none, for
// every interface that has such an address. At most kScopesMax interfaces are used.
inline constexpr std::size_t kScopesMax = 8;
std::vector<SocketAddress> with_scopes(std::span<const SocketAddress> addresses,
                                       std::span<const SocketAddress> listening);

// Listens on as many interfaces as it can, and logs one line for each other one. Returns System if
// it can listen on none.
Result<ControlListener> listen_on(std::span<const InterfaceAddress> interfaces);

// Returns NotFound if no interface fits the rules, or System if the kernel refused. Both are
// logged.
Result<ControlListener> open_listener(const ControlPlaneOptions& options);

}  // namespace mesh::engine

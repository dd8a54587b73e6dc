#pragma once
// The listening sockets, and the addresses at which peers find them. NCCL_SOCKET_IFNAME and
// NCCL_SOCKET_FAMILY choose the interfaces. Thread: the owner of the control plane. Bound:
// kListenAddressesMax addresses.

#include <mesh/status.h>

#include "engine/control/control_plane.h"
#include "src/base/socket.h"
#include "src/base/unique_fd.h"

#include <sys/epoll.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace mesh::engine {

// Tells which sockets are ready (epoll, level-triggered), and wakes whoever waits for them
// (eventfd). Thread: watch, change, forget and ready by the owner; wait and wake by any. Bound:
// ready() fills the room it is given.
class SocketWatcher {
 public:
  static constexpr std::uint64_t kWakeKey = 0;

  Status open();

  Status watch(int fd, std::uint64_t key, std::uint32_t events);
  // Returns false if it failed; then the descriptor is watched as before.
  bool change(int fd, std::uint64_t key, std::uint32_t events) noexcept;
  void forget(int fd) noexcept;

  // Never blocks. data.u64 of each event is the key.
  std::span<epoll_event> ready(std::span<epoll_event> room) noexcept;
  void wait(int timeout_ms) noexcept;  // negative: without end
  void wake() noexcept;
  void wake_taken() noexcept;  // call it when kWakeKey was among ready()

 private:
  UniqueFd epoll_;
  UniqueFd event_;
  // Set in wake() and cleared in wake_taken(), both acq_rel: what was written before wake() is
  // seen after it.
  std::atomic<bool> woken_{false};
};

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

// Returns System, and logs one line, if no interface fits the rules or the kernel refused.
Result<ControlListener> open_listener(const ControlPlaneOptions& options);

}  // namespace mesh::engine

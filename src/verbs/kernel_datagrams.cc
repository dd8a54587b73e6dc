#include "src/verbs/kernel_datagrams.h"

#include "src/base/check.h"
#include "src/base/fork_guard.h"
#include "src/base/log.h"
#include "src/base/socket.h"
#include "src/base/unique_fd.h"

#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

namespace mesh::verbs {

namespace {
constexpr int kLongOnesMax = 16;  // datagrams that are too long for us, skipped in one call

class KernelDatagrams final : public CableDatagrams {
 public:
  KernelDatagrams(UniqueFd fd, const SocketAddress& own, std::uint16_t port)
      : fd_(std::move(fd)), own_(own), port_(port) {}

  DatagramPlace place() const noexcept override { return {.address = own_.bytes, .port = port_}; }
  int fd() const noexcept override { return fd_.get(); }

  // An error is a lost datagram: the device may be down, or nobody has the address.
  void send(const DatagramPlace& to, std::span<const std::byte> bytes) noexcept override {
    DCHECK(bytes.size() <= kCableDatagramBytesMax);
    SocketAddress address = own_;  // with the scope, which is our net device
    address.bytes = to.address;
    sockaddr_storage raw{};
    const socklen_t size = address.to_sockaddr(to.port, raw);
    if ((!address.link_local() && to != kCableGroup) || size == 0) return;
    [[maybe_unused]] const ssize_t sent =
        ::sendto(fd_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL,
                 reinterpret_cast<const sockaddr*>(&raw), size);
  }

  std::optional<CableDatagram> next() noexcept override {
    for (int skipped = 0; skipped < kLongOnesMax; ++skipped) {
      CableDatagram datagram;
      sockaddr_storage raw{};
      socklen_t size = sizeof raw;
      const ssize_t got =
          ::recvfrom(fd_.get(), datagram.data.data(), datagram.data.size(),
                     MSG_DONTWAIT | MSG_TRUNC, reinterpret_cast<sockaddr*>(&raw), &size);
      if (got < 0) return std::nullopt;
      const SocketAddress from = SocketAddress::from_sockaddr(reinterpret_cast<sockaddr*>(&raw));
      const bool whole = static_cast<std::size_t>(got) <= datagram.data.size();
      if (!whole || !from.link_local() || from.scope_id != own_.scope_id) continue;
      datagram.bytes = static_cast<std::size_t>(got);
      datagram.from = {.address = from.bytes,
                       .port = ntohs(reinterpret_cast<const sockaddr_in6*>(&raw)->sin6_port)};
      return datagram;
    }
    return std::nullopt;
  }

 private:
  const UniqueFd fd_;
  const SocketAddress own_;
  const std::uint16_t port_;
};

std::optional<SocketAddress> link_local_of(const std::string& netdev) {
  for (const InterfaceAddress& each : all_interfaces()) {
    const bool fits = each.name == netdev && each.address.family == AF_INET6 &&
                      each.address.link_local() && each.address.scope_id != 0;
    if (fits) return each.address;
  }
  return std::nullopt;
}
UniqueFd open_socket() {
  return UniqueFd(::socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

bool set_option(const UniqueFd& fd, int level, int name, int value) {
  return ::setsockopt(fd.get(), level, name, &value, sizeof value) == 0;
}

bool bind_to(const UniqueFd& fd, const SocketAddress& address, std::uint16_t port) {
  sockaddr_storage raw{};
  const socklen_t size = address.to_sockaddr(port, raw);
  return ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&raw), size) == 0;
}
}  // namespace

std::unique_ptr<CableDatagrams> open_kernel_group(const std::string& netdev) {
  const unsigned index = netdev.empty() ? 0 : ::if_nametoindex(netdev.c_str());
  if (index == 0) return nullptr;
  const SocketAddress group{.family = AF_INET6, .bytes = kCableGroup.address, .scope_id = index};
  ipv6_mreq joins{};
  std::memcpy(&joins.ipv6mr_multiaddr, group.bytes.data(), group.bytes.size());
  joins.ipv6mr_interface = index;
  UniqueFd fd = open_socket();
  const bool opened =
      fd.valid() && set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1) &&
      bind_to(fd, group, kCableGroup.port) &&
      ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_JOIN_GROUP, &joins, sizeof joins) == 0;
  if (!opened) {
    LOG_DETAIL("{}: questions of neighbours are not heard: {}", netdev, std::strerror(errno));
    return nullptr;
  }
  fork_close_fd(fd.get());
  return std::make_unique<KernelDatagrams>(std::move(fd), group, kCableGroup.port);
}

std::unique_ptr<CableDatagrams> open_kernel_datagrams(const std::string& netdev) {
  const std::optional<SocketAddress> own = netdev.empty() ? std::nullopt : link_local_of(netdev);
  if (!own) return nullptr;
  UniqueFd fd = open_socket();
  // An address that the kernel still tests for duplicates cannot be bound.
  if (!fd.valid() || !set_option(fd, IPPROTO_IPV6, IPV6_MULTICAST_LOOP, 0) ||
      !bind_to(fd, *own, 0)) {
    LOG_DETAIL("{}: no datagrams: {}", own->text(), std::strerror(errno));
    return nullptr;
  }
  fork_close_fd(fd.get());
  const Result<std::uint16_t> port = local_port(fd.get());
  if (!port.ok()) return nullptr;
  return std::make_unique<KernelDatagrams>(std::move(fd), *own, *port);
}

}  // namespace mesh::verbs

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
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

namespace mesh::verbs {

namespace {
constexpr int kOthersMax = 16;  // datagrams that are not for us, skipped in one call
constexpr int kHopsMax = 255;   // a router makes it less

// Room for the control messages of one datagram.
struct Control {
  alignas(cmsghdr)
      std::array<std::byte, CMSG_SPACE(sizeof(in6_pktinfo)) + CMSG_SPACE(sizeof(in_pktinfo)) +
                                CMSG_SPACE(sizeof(int))> bytes{};
};

// Describes how a datagram has come in.
struct Arrival {
  unsigned device = 0;
  int hops = 0;  // IPv4
};

Arrival arrival_of(msghdr& message) {
  Arrival arrival;
  const auto read = [](const cmsghdr* from, auto value) {
    std::memcpy(&value, CMSG_DATA(from), sizeof value);
    return value;
  };
  for (cmsghdr* each = CMSG_FIRSTHDR(&message); each != nullptr;
       each = CMSG_NXTHDR(&message, each)) {
    if (each->cmsg_level == IPPROTO_IPV6 && each->cmsg_type == IPV6_PKTINFO)
      arrival.device = read(each, in6_pktinfo{}).ipi6_ifindex;
    if (each->cmsg_level == IPPROTO_IP && each->cmsg_type == IP_PKTINFO)
      arrival.device = static_cast<unsigned>(read(each, in_pktinfo{}).ipi_ifindex);
    if (each->cmsg_level == IPPROTO_IP && each->cmsg_type == IP_TTL)
      arrival.hops = read(each, int{});
  }
  return arrival;
}

// Returns the place that a socket address of either family names; an IPv4 one may be mapped.
DatagramPlace place_of(const sockaddr_storage& raw) {
  const auto* const address = reinterpret_cast<const sockaddr*>(&raw);
  SocketAddress from = SocketAddress::from_sockaddr(address);
  DatagramPlace place{.address = {},
                      .ipv4 = {},
                      .port = ntohs(from.family == AF_INET6
                                        ? reinterpret_cast<const sockaddr_in6*>(&raw)->sin6_port
                                        : reinterpret_cast<const sockaddr_in*>(&raw)->sin_port)};
  if (from.family == AF_INET6) from = SocketAddress::from_gid(from.bytes);
  if (from.family == AF_INET6 && from.link_local()) place.address = from.bytes;
  if (from.family == AF_INET) std::copy_n(from.bytes.begin(), 4, place.ipv4.begin());
  return place;
}

// An address that the kernel still tests for duplicates cannot be bound, nor sent from.
bool is_usable(const SocketAddress& address) {
  const UniqueFd probe(::socket(address.family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_storage raw{};
  const socklen_t size = address.to_sockaddr(0, raw);
  return probe.valid() && ::bind(probe.get(), reinterpret_cast<const sockaddr*>(&raw), size) == 0;
}

// A host answers for each of its IPv4 addresses on each of its net devices, so a datagram may come
// in over another device than the one with its address: it is skipped. The count of hops shows that
// no router has passed it on; none passes on what comes from a link-local address.
class KernelDatagrams final : public CableDatagrams {
 public:
  KernelDatagrams(UniqueFd fd, std::string netdev, unsigned device, const DatagramPlace& own)
      : fd_(std::move(fd)),
        netdev_(std::move(netdev)),
        device_(device),
        port_(own.port),
        own_(own) {}

  DatagramPlace place() const noexcept override { return own_; }
  int fd() const noexcept override { return fd_.get(); }

  bool refresh() override {
    if (::if_nametoindex(netdev_.c_str()) != device_) return false;
    if (own_ == kCableGroup) return true;
    DatagramPlace now;
    for (const InterfaceAddress& each : all_interfaces(Carrier::Any)) {
      const SocketAddress& address = each.address;
      if (each.name != netdev_) continue;
      if (address.family == AF_INET6 && address.link_local() && !now.has_ipv6() &&
          is_usable(address))
        now.address = address.bytes;
      if (address.family == AF_INET && !address.loopback() && !now.has_ipv4())
        std::copy_n(address.bytes.begin(), now.ipv4.size(), now.ipv4.begin());
    }
    if (now.has_ipv6() || now.has_ipv4()) now.port = port_;
    own_ = now;
    return true;
  }

  // An error is a lost datagram: the device may be down, or nobody has the address.
  void send(const DatagramPlace& to, std::span<const std::byte> bytes) noexcept override {
    DCHECK(bytes.size() <= kCableDatagramBytesMax);
    const DatagramPlace way = to == kCableGroup ? to : reached_from(own_, to);
    SocketAddress address{.family = AF_INET6, .bytes = way.address, .scope_id = device_};
    if (way.has_ipv4()) {
      address = SocketAddress::any(AF_INET);
      std::copy(way.ipv4.begin(), way.ipv4.end(), address.bytes.begin());
    }
    if (way.port == 0 || (way.has_ipv6() && way != kCableGroup && !address.link_local())) return;
    sockaddr_storage raw{};
    iovec part{.iov_base = const_cast<std::byte*>(bytes.data()), .iov_len = bytes.size()};
    Control control;
    msghdr message{};
    message.msg_name = &raw;
    message.msg_namelen = address.to_sockaddr(way.port, raw);
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.bytes.data();
    if (way.has_ipv4()) {
      in_pktinfo info{};
      info.ipi_ifindex = static_cast<int>(device_);
      std::memcpy(&info.ipi_spec_dst, own_.ipv4.data(), sizeof info.ipi_spec_dst);
      attach(message, {IPPROTO_IP, IP_PKTINFO}, info);
    } else {
      in6_pktinfo info{};
      info.ipi6_ifindex = device_;
      if (own_ != kCableGroup)
        std::memcpy(&info.ipi6_addr, own_.address.data(), sizeof info.ipi6_addr);
      attach(message, {IPPROTO_IPV6, IPV6_PKTINFO}, info);
    }
    const int direct = way.has_ipv4() ? MSG_DONTROUTE : 0;
    [[maybe_unused]] const ssize_t sent =
        ::sendmsg(fd_.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL | direct);
  }

  std::optional<CableDatagram> next() noexcept override {
    for (int skipped = 0; skipped < kOthersMax; ++skipped) {
      CableDatagram datagram;
      sockaddr_storage raw{};
      iovec part{.iov_base = datagram.data.data(), .iov_len = datagram.data.size()};
      Control control;
      msghdr message{};
      message.msg_name = &raw;
      message.msg_namelen = sizeof raw;
      message.msg_iov = &part;
      message.msg_iovlen = 1;
      message.msg_control = control.bytes.data();
      message.msg_controllen = control.bytes.size();
      const ssize_t got = ::recvmsg(fd_.get(), &message, MSG_DONTWAIT | MSG_TRUNC);
      if (got < 0) return std::nullopt;
      const Arrival arrival = arrival_of(message);
      datagram.from = place_of(raw);
      const bool direct =
          datagram.from.has_ipv6() || (datagram.from.has_ipv4() && arrival.hops == kHopsMax);
      const bool whole = static_cast<std::size_t>(got) <= datagram.data.size();
      if (!whole || !direct || arrival.device != device_) continue;
      datagram.bytes = static_cast<std::size_t>(got);
      return datagram;
    }
    return std::nullopt;
  }

 private:
  template <typename Info>
  static void attach(msghdr& message, std::pair<int, int> level_and_type, const Info& info) {
    message.msg_controllen = CMSG_SPACE(sizeof info);
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = level_and_type.first;
    header->cmsg_type = level_and_type.second;
    header->cmsg_len = CMSG_LEN(sizeof info);
    std::memcpy(CMSG_DATA(header), &info, sizeof info);
  }

  const UniqueFd fd_;
  const std::string netdev_;
  const unsigned device_;     // its index
  const std::uint16_t port_;  // of the socket
  DatagramPlace own_;
};

bool set_option(int fd, int level, int name, int value) {
  return ::setsockopt(fd, level, name, &value, sizeof value) == 0;
}

bool bind_to(int fd, const SocketAddress& address, std::uint16_t port) {
  sockaddr_storage raw{};
  const socklen_t size = address.to_sockaddr(port, raw);
  return ::bind(fd, reinterpret_cast<const sockaddr*>(&raw), size) == 0;
}

bool joins_group(int fd, unsigned device) {
  const SocketAddress group{.family = AF_INET6, .bytes = kCableGroup.address, .scope_id = device};
  ipv6_mreq joins{};
  std::memcpy(&joins.ipv6mr_multiaddr, group.bytes.data(), group.bytes.size());
  joins.ipv6mr_interface = device;
  return set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1) && bind_to(fd, group, kCableGroup.port) &&
         ::setsockopt(fd, IPPROTO_IPV6, IPV6_JOIN_GROUP, &joins, sizeof joins) == 0;
}

// The device may be of a VRF, and datagrams of other devices need not wake us. A kernel before 5.7
// asks for a privilege, and then next() alone skips those.
void bind_to_device(int fd, const std::string& netdev) {
  static_cast<void>(::setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, netdev.data(),
                                 static_cast<socklen_t>(netdev.size())));
}

bool takes_own(int fd, std::uint16_t family, const std::string& netdev) {
  bind_to_device(fd, netdev);
  return set_option(fd, IPPROTO_IP, IP_TTL, kHopsMax) && bind_to(fd, SocketAddress::any(family), 0);
}
}  // namespace

std::unique_ptr<CableDatagrams> open_kernel_datagrams(const std::string& netdev, DatagramEnd end) {
  const unsigned device = netdev.empty() ? 0 : ::if_nametoindex(netdev.c_str());
  const bool group = end == DatagramEnd::Group;
  constexpr int kKind = SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK;
  errno = ENODEV;
  if (device == 0) return nullptr;
  UniqueFd fd(::socket(AF_INET6, kKind, 0));
  const bool ipv6 = fd.valid();
  if (!ipv6 && !group) fd = UniqueFd(::socket(AF_INET, kKind, 0));  // of a kernel without IPv6
  if (!fd.valid()) return nullptr;
  const bool both = !ipv6 || (set_option(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, 0) &&
                              set_option(fd.get(), IPPROTO_IPV6, IPV6_RECVPKTINFO, 1) &&
                              set_option(fd.get(), IPPROTO_IPV6, IPV6_MULTICAST_LOOP, 0));
  const std::uint16_t family = ipv6 ? AF_INET6 : AF_INET;
  if (!both || !set_option(fd.get(), IPPROTO_IP, IP_PKTINFO, 1) ||
      !set_option(fd.get(), IPPROTO_IP, IP_RECVTTL, 1) ||
      !(group ? joins_group(fd.get(), device) : takes_own(fd.get(), family, netdev)))
    return nullptr;
  fork_close_fd(fd.get());
  const Result<std::uint16_t> port = local_port(fd.get());
  if (!port.ok()) return nullptr;
  DatagramPlace own = kCableGroup;
  if (!group) own = {.address = {}, .ipv4 = {}, .port = *port};
  auto made = std::make_unique<KernelDatagrams>(std::move(fd), netdev, device, own);
  if (!made->refresh()) return nullptr;
  return made;
}

}  // namespace mesh::verbs

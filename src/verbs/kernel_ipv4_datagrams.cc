// Datagrams of a net device without a link-local IPv6 address, by its IPv4 address.
#include "src/base/check.h"
#include "src/base/fork_guard.h"
#include "src/base/log.h"
#include "src/base/socket.h"
#include "src/base/unique_fd.h"
#include "src/verbs/kernel_datagrams.h"

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

// Each control message has room for itself.
struct Control {
  alignas(cmsghdr)
      std::array<std::byte, CMSG_SPACE(sizeof(in_pktinfo)) + CMSG_SPACE(sizeof(int))> bytes{};
};

// Describes how a datagram has come in.
struct Arrival {
  int device = 0;
  int hops = 0;
};

Arrival arrival_of(msghdr& message) {
  Arrival arrival;
  for (cmsghdr* each = CMSG_FIRSTHDR(&message); each != nullptr;
       each = CMSG_NXTHDR(&message, each)) {
    if (each->cmsg_level != IPPROTO_IP) continue;
    in_pktinfo info{};
    if (each->cmsg_type == IP_PKTINFO) {
      std::memcpy(&info, CMSG_DATA(each), sizeof info);
      arrival.device = info.ipi_ifindex;
    } else if (each->cmsg_type == IP_TTL) {
      std::memcpy(&arrival.hops, CMSG_DATA(each), sizeof arrival.hops);
    }
  }
  return arrival;
}

// A host answers for each of its IPv4 addresses on each of its net devices, so a datagram may come
// in over another device than the one with its address. Such ones are skipped, and a datagram goes
// out over our device alone. The count of hops shows that no router has passed it on.
class Ipv4Datagrams final : public CableDatagrams {
 public:
  Ipv4Datagrams(UniqueFd fd, const SocketAddress& own, int device, std::uint16_t port)
      : fd_(std::move(fd)), own_(own), device_(device), port_(port) {}

  DatagramPlace place() const noexcept override { return place_of_ipv4(own_, port_); }
  int fd() const noexcept override { return fd_.get(); }

  // An error is a lost datagram.
  void send(const DatagramPlace& to, std::span<const std::byte> bytes) noexcept override {
    DCHECK(bytes.size() <= kCableDatagramBytesMax);
    if (!to.is_ipv4()) return;
    sockaddr_storage raw{};
    const socklen_t size = SocketAddress::from_gid(to.address).to_sockaddr(to.port, raw);
    iovec part{.iov_base = const_cast<std::byte*>(bytes.data()), .iov_len = bytes.size()};
    Control control;
    msghdr message{};
    message.msg_name = &raw;
    message.msg_namelen = size;
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.bytes.data();
    message.msg_controllen = CMSG_SPACE(sizeof(in_pktinfo));
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = IPPROTO_IP;
    header->cmsg_type = IP_PKTINFO;
    header->cmsg_len = CMSG_LEN(sizeof(in_pktinfo));
    in_pktinfo info{};
    info.ipi_ifindex = device_;
    std::memcpy(&info.ipi_spec_dst, own_.bytes.data(), sizeof info.ipi_spec_dst);
    std::memcpy(CMSG_DATA(header), &info, sizeof info);
    [[maybe_unused]] const ssize_t sent =
        ::sendmsg(fd_.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL | MSG_DONTROUTE);
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
      const bool whole = static_cast<std::size_t>(got) <= datagram.data.size();
      if (!whole || arrival.device != device_ || arrival.hops != kHopsMax) continue;
      datagram.bytes = static_cast<std::size_t>(got);
      datagram.from =
          place_of_ipv4(SocketAddress::from_sockaddr(reinterpret_cast<const sockaddr*>(&raw)),
                        ntohs(reinterpret_cast<const sockaddr_in*>(&raw)->sin_port));
      return datagram;
    }
    return std::nullopt;
  }

 private:
  static DatagramPlace place_of_ipv4(const SocketAddress& address, std::uint16_t port) {
    DatagramPlace place{.address = kIpv4Prefix, .port = port};
    std::copy_n(address.bytes.begin(), 4, place.address.begin() + kIpv4At);
    return place;
  }

  const UniqueFd fd_;
  const SocketAddress own_;
  const int device_;
  const std::uint16_t port_;
};

std::optional<SocketAddress> ipv4_of(const std::string& netdev) {
  for (const InterfaceAddress& each : all_interfaces()) {
    if (each.name == netdev && each.address.family == AF_INET && !each.address.loopback())
      return each.address;
  }
  return std::nullopt;
}

bool set_options(int fd) {
  for (const auto& [name, value] :
       {std::pair(IP_PKTINFO, 1), std::pair(IP_RECVTTL, 1), std::pair(IP_TTL, kHopsMax)}) {
    if (::setsockopt(fd, IPPROTO_IP, name, &value, sizeof value) != 0) return false;
  }
  return true;
}
}  // namespace

std::unique_ptr<CableDatagrams> open_kernel_ipv4_datagrams(const std::string& netdev) {
  const unsigned device = netdev.empty() ? 0 : ::if_nametoindex(netdev.c_str());
  const std::optional<SocketAddress> own = device == 0 ? std::nullopt : ipv4_of(netdev);
  if (!own) return nullptr;
  UniqueFd fd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_storage raw{};
  const socklen_t size = own->to_sockaddr(0, raw);
  if (!fd.valid() || !set_options(fd.get()) ||
      ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&raw), size) != 0) {
    LOG_DETAIL("{}: no datagrams: {}", own->text(), std::strerror(errno));
    return nullptr;
  }
  fork_close_fd(fd.get());
  const Result<std::uint16_t> port = local_port(fd.get());
  if (!port.ok()) return nullptr;
  return std::make_unique<Ipv4Datagrams>(std::move(fd), *own, static_cast<int>(device), *port);
}

}  // namespace mesh::verbs

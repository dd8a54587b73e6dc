#pragma once
// Small datagrams between the net devices at the two ends of a wire. They tell which port is cabled
// to which, because they go by link-local IPv6 addresses: no router passes them on, and a host
// answers for such an address only on the net device that has it. Without such an address they go
// by IPv4, and an end takes only what has come in over its own net device. Thread: one at a time.
// Bound: what the kernel, or the software fabric, keeps for a socket; the rest is lost.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace mesh::verbs {

inline constexpr std::size_t kIpv4At = 12;  // of an address in ::ffff:0:0/96
inline constexpr std::array<std::uint8_t, 16> kIpv4Prefix{0, 0, 0,    0,    0, 0, 0, 0,
                                                          0, 0, 0xff, 0xff, 0, 0, 0, 0};

// The address of a net device, link-local IPv6 or IPv4 in ::ffff:0:0/96, and a UDP port there.
struct DatagramPlace {
  std::array<std::uint8_t, 16> address{};
  std::uint16_t port = 0;  // 0: it takes no datagrams

  bool is_ipv4() const noexcept {
    return std::equal(kIpv4Prefix.begin(), kIpv4Prefix.begin() + kIpv4At, address.begin());
  }
  friend bool operator==(const DatagramPlace&, const DatagramPlace&) = default;
};

// The group and the port to which a host sends what all neighbours on a wire may hear. It is a
// transient group of the wire alone ("mesh" in ASCII).
inline constexpr DatagramPlace kCableGroup{
    .address = {0xff, 0x12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x6d, 0x65, 0x73, 0x68}, .port = 28005};

// The datagrams that an end takes.
enum class DatagramEnd : std::uint8_t {
  Port,   // those for the port's own place
  Group,  // those for kCableGroup; several processes may take them, and it sends from that port
};

inline constexpr std::size_t kCableDatagramBytesMax = 160;

struct CableDatagram {
  DatagramPlace from;
  std::size_t bytes = 0;
  std::array<std::byte, kCableDatagramBytesMax> data{};
  std::span<const std::byte> span() const noexcept { return std::span(data).first(bytes); }
};

// The datagrams of one port's net device.
class CableDatagrams {
 public:
  virtual ~CableDatagrams() = default;

  virtual DatagramPlace place() const noexcept = 0;  // where others reach this port
  virtual int fd() const noexcept = 0;               // readable while a datagram waits
  // Sends to the place, or to kCableGroup, over this net device alone. This host does not hear what
  // it sends to the group. A datagram may be lost without a word. At most
  // kCableDatagramBytesMax bytes. Never blocks.
  virtual void send(const DatagramPlace& to, std::span<const std::byte> bytes) noexcept = 0;
  // Takes the next datagram that has come in over this net device. Longer ones are skipped.
  virtual std::optional<CableDatagram> next() noexcept = 0;
};

}  // namespace mesh::verbs

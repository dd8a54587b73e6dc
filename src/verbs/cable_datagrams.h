#pragma once
// Small datagrams between the net devices at the two ends of a wire. They tell which port is cabled
// to which: they leave over one net device, no router passes them on, and an end takes only what
// has come in over its own net device. They go by link-local IPv6 addresses, or by IPv4 between two
// devices of which one has none. Thread: one at a time. Bound: what the kernel, or the software
// fabric, keeps for a socket; the rest is lost.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace mesh::verbs {

// The addresses of a net device, and a UDP port there. An address of zeros: it has none.
struct DatagramPlace {
  std::array<std::uint8_t, 16> address{};  // link-local IPv6
  std::array<std::uint8_t, 4> ipv4{};
  std::uint16_t port = 0;  // 0: it takes no datagrams

  bool has_ipv6() const noexcept { return address != decltype(address){}; }
  bool has_ipv4() const noexcept { return ipv4 != decltype(ipv4){}; }
  friend bool operator==(const DatagramPlace&, const DatagramPlace&) = default;
};

// Returns the place with the one address to which an end at `from` sends: IPv6 if both have it,
// otherwise IPv4. Its port is 0 if the two have no family in common.
inline DatagramPlace reached_from(const DatagramPlace& from, DatagramPlace to) noexcept {
  if (from.has_ipv6() && to.has_ipv6()) {
    to.ipv4 = {};
  } else if (from.has_ipv4() && to.has_ipv4()) {
    to.address = {};
  } else {
    to = {};
  }
  return to;
}

// The group and the port to which a host sends what all neighbours on a wire may hear. It is a
// transient IPv6 group of the wire alone ("mesh" in ASCII).
inline constexpr DatagramPlace kCableGroup{
    .address = {0xff, 0x12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x6d, 0x65, 0x73, 0x68},
    .ipv4 = {},
    .port = 28005};

// The datagrams that an end takes.
enum class DatagramEnd : std::uint8_t {
  Port,   // those for the port's own place
  Group,  // those for kCableGroup; several processes may take them, and it sends from that port
};

inline constexpr std::size_t kCableDatagramBytesMax = 512;

struct CableDatagram {
  DatagramPlace from;  // with the address that it came from
  std::size_t bytes = 0;
  std::array<std::byte, kCableDatagramBytesMax> data{};
  std::span<const std::byte> span() const noexcept { return std::span(data).first(bytes); }
};

// The datagrams of one port's net device.
class CableDatagrams {
 public:
  virtual ~CableDatagrams() = default;

  // Returns where others reach this port, as refresh() found it last; opening it is the first time.
  virtual DatagramPlace place() const noexcept = 0;
  // Reads the addresses of the net device again. Returns false if this end is of no more use,
  // because its net device has gone or another one has its name: open another.
  virtual bool refresh() = 0;
  virtual int fd() const noexcept = 0;  // readable while a datagram waits
  // Sends to the place, or to kCableGroup, over this net device alone. This host does not hear what
  // it sends to the group. A datagram may be lost without a word. At most
  // kCableDatagramBytesMax bytes. Never blocks.
  virtual void send(const DatagramPlace& to, std::span<const std::byte> bytes) noexcept = 0;
  // Takes the next datagram that has come in over this net device. Longer ones are skipped.
  virtual std::optional<CableDatagram> next() noexcept = 0;
};

}  // namespace mesh::verbs

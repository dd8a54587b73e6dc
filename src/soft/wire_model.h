#pragma once
// The arithmetic of the modelled wire: the time that a request takes on a link, in ticks of 1/256
// ns. So 56 bits of nanoseconds and the fraction of a byte time at 400 Gb/s both fit in a word. The
// state is when this NIC and its end of the cable are free. Thread: the NIC's turn; a Transmitter
// is shared by both halves of a cable. Bound: none.

#include "src/soft/fabric_file.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <optional>

namespace mesh::soft {

inline constexpr std::uint64_t kTicksPerNs = 256;
// The bytes that RoCE v2 over IPv4 adds to the payload of a packet: preamble 8, Ethernet 14, IPv4
// 20, UDP 8, BTH 12, ICRC 4, FCS 4, gap 12.
inline constexpr std::uint64_t kPacketOverheadBytes = 82;
inline constexpr std::uint64_t kFirstPacketBytes = 16;  // RETH
inline constexpr std::uint64_t kImmBytes = 4;

// One direction of a cable. If two threads turn its two halves at once, both may book one moment,
// which is an error of one quantum. On a manual clock one thread turns both.
struct Transmitter {
  std::atomic<std::uint64_t> free_at_ticks{0};
};

class WireModel {
 public:
  WireModel(const LinkSpec* link, const NicSpec& nic, const NicCosts& costs,
            Transmitter& transmitter);

  bool modelled() const noexcept {
    return link_ticks_per_byte_ > 0 || nic_ticks_per_byte_ > 0 || qp_ticks_per_byte_ > 0 ||
           delay_ns_ > 0 || fetch_ticks_ > 0;
  }
  std::uint64_t delay_ns() const noexcept { return delay_ns_; }
  std::uint64_t fetch_ticks() const noexcept { return fetch_ticks_; }
  static std::uint64_t wire_bytes(std::uint64_t payload, std::uint32_t mtu, bool with_imm) noexcept;
  // Returns how many of a work request's bytes on the wire its queue pair sends in this turn: whole
  // packets, until their payloads fill the quantum. `sent` of `total` have gone in earlier turns.
  std::uint64_t turn_bytes(std::uint64_t sent, std::uint64_t total,
                           std::uint32_t mtu) const noexcept;
  std::uint64_t qp_ticks(std::uint64_t bytes) const noexcept {
    return scaled(bytes, qp_ticks_per_byte_);
  }

  // Returns when this NIC can put its next quantum on the cable.
  std::uint64_t free_at_ticks() const noexcept {
    return std::max(nic_free_at_ticks_, transmitter_.free_at_ticks.load(std::memory_order_relaxed));
  }
  // Sends the bytes from at_ticks on, which is not before free_at_ticks(). Returns when the last of
  // them has left.
  std::uint64_t send(std::uint64_t at_ticks, std::uint64_t bytes) noexcept;

 private:
  static std::uint64_t scaled(std::uint64_t bytes, double ticks) noexcept {
    return static_cast<std::uint64_t>(std::llround(static_cast<double>(bytes) * ticks));
  }
  Transmitter& transmitter_;
  std::uint64_t nic_free_at_ticks_ = 0;
  double link_ticks_per_byte_ = 0, nic_ticks_per_byte_ = 0, qp_ticks_per_byte_ = 0;
  std::uint64_t delay_ns_ = 0, quantum_bytes_, fetch_ticks_;
};

struct HostPair {
  int from = 0, to = 0;  // indices
};

// Returns the goodput between two hosts in 10^9 bytes of payload a second, one way. MTU bytes of
// payload take MTU + 82 bytes on the wire (RoCE v2: Ethernet 38, IPv4 20, UDP 8, BTH 12, ICRC 4). A
// NIC slower than its cable counts with its own rate; two halves count with no more than their
// cable's. Returns no value if the hosts share no link, or one of their links has no rate.
std::optional<double> goodput_gbytes_per_s(const FabricFile& fabric, const HostPair& pair);

}  // namespace mesh::soft

#pragma once
// The arithmetic of the modelled wire: what a request costs on a link, in ticks of 1/256 ns (so that 56 bits of nanoseconds and
// the fraction of a byte time at 400 Gb/s both fit in a word). State: when this NIC's transmitter is free.
// Thread: the NIC's turn.

#include "src/soft/fabric_file.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace mesh::soft {

inline constexpr std::uint64_t kTicksPerNs = 256;
inline constexpr std::uint64_t kQuantumBytes = 16384;  // one queue pair's turn on the wire
// RoCE v2 over IPv4 beside the payload: preamble 8, Ethernet 14, IPv4 20, UDP 8, BTH 12, ICRC 4, FCS 4, gap 12.
inline constexpr std::uint64_t kPacketOverheadBytes = 82;
inline constexpr std::uint64_t kFirstPacketBytes = 16;  // RETH
inline constexpr std::uint64_t kImmBytes = 4;

class WireModel {
 public:
  explicit WireModel(const LinkSpec* link);

  bool modelled() const noexcept { return link_ticks_per_byte_ > 0 || qp_ticks_per_byte_ > 0 || delay_ns_ > 0; }
  std::uint64_t delay_ns() const noexcept { return delay_ns_; }
  static std::uint64_t wire_bytes(std::uint64_t payload, std::uint32_t mtu, bool with_imm) noexcept;
  std::uint64_t link_ticks(std::uint64_t bytes) const noexcept { return scaled(bytes, link_ticks_per_byte_); }
  std::uint64_t qp_ticks(std::uint64_t bytes) const noexcept { return scaled(bytes, qp_ticks_per_byte_); }

  std::uint64_t free_at_ticks = 0;  // transmitter

 private:
  static std::uint64_t scaled(std::uint64_t bytes, double ticks) noexcept {
    return static_cast<std::uint64_t>(std::llround(static_cast<double>(bytes) * ticks));
  }
  double link_ticks_per_byte_ = 0, qp_ticks_per_byte_ = 0;
  std::uint64_t delay_ns_ = 0;
};

}  // namespace mesh::soft

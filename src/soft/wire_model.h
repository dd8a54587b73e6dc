#pragma once
// The arithmetic of the modelled wire: the time that a request takes on a link, in ticks of 1/256
// ns. So 56 bits of nanoseconds and the fraction of a byte time at 400 Gb/s both fit in a word. The
// state is when this NIC, its end of the cable and the slots at both ends are free. Thread: the
// NIC's turn; Transmitters are shared by both halves of a cable and by all processes of a host, and
// those of a slot by its NICs and by all that send to them. Bound: none.

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

// One direction of a cable or of a slot, or the bus of a NIC. A process that ends leaves nothing
// but the time it has booked.
struct Transmitter {
  std::atomic<std::uint64_t> free_at_ticks{0};

  std::uint64_t free() const noexcept { return free_at_ticks.load(std::memory_order_relaxed); }
  // Books the time from at_ticks on, or later if others have booked it. Returns the time's end.
  std::uint64_t book(std::uint64_t at_ticks, std::uint64_t ticks) noexcept {
    std::uint64_t before = free(), end;
    do {
      end = std::max(at_ticks, before) + ticks;
    } while (!free_at_ticks.compare_exchange_weak(before, end, std::memory_order_relaxed));
    return end;
  }
  // Books all time until then.
  void hold(std::uint64_t until_ticks) noexcept { book(until_ticks, 0); }
};

// A slot that NICs share. What they send is read from the host's memory, and what they receive is
// written there; neither direction takes time of the other.
struct CardSlot {
  Transmitter reads, writes;
  double ticks_per_byte = 0;
};

// The transmitters that a NIC uses. They outlive it.
struct Wires {
  Transmitter& cable;
  Transmitter& bus;
  CardSlot* slot = nullptr;  // null: the NIC is in none
};

class WireModel {
 public:
  WireModel(const LinkSpec* link, const NicSpec& nic, const NicCosts& costs, const Wires& wires);

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
    return std::max(wires_.bus.free(), wires_.cable.free());
  }
  // Sends the bytes from at_ticks on, or as soon as the wire is free. Returns when the last of them
  // has left. If the NIC that receives them is in a slot, `far`, they leave no faster than that
  // slot takes them.
  std::uint64_t send(std::uint64_t at_ticks, std::uint64_t bytes, CardSlot* far = nullptr) noexcept;

 private:
  std::uint64_t pass_slots(std::uint64_t at_ticks, std::uint64_t end_ticks, std::uint64_t bytes,
                           CardSlot* far) noexcept;
  static std::uint64_t scaled(std::uint64_t bytes, double ticks) noexcept {
    return static_cast<std::uint64_t>(std::llround(static_cast<double>(bytes) * ticks));
  }
  const Wires wires_;
  double link_ticks_per_byte_ = 0, nic_ticks_per_byte_ = 0, qp_ticks_per_byte_ = 0;
  std::uint64_t delay_ns_ = 0, quantum_bytes_, fetch_ticks_;
};

// Returns the time that a byte takes at a rate; 0 for the rate 0, which means no limit.
double ticks_per_byte(double gbps) noexcept;

struct HostPair {
  int from = 0, to = 0;  // indices
};

struct Goodput {
  double gbytes_per_s = 0;
  bool slots_bind = false;  // the cables and NICs alone would let more through
};
// Returns the goodput between two hosts in 10^9 bytes of payload a second, one way. MTU bytes of
// payload take MTU + 82 bytes on the wire (RoCE v2: Ethernet 38, IPv4 20, UDP 8, BTH 12, ICRC 4). A
// NIC slower than its cable counts with its own rate; two halves count with no more than their
// cable's, and the NICs of a slot with no more than the slot's. Returns no value if the hosts share
// no link, or one of their links has no rate.
std::optional<Goodput> goodput_between(const FabricFile& fabric, const HostPair& pair);

}  // namespace mesh::soft

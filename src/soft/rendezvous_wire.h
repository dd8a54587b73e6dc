#pragma once
// The messages on the sockets of the rendezvous, by which hosts greet, offer rings and take orders
// for faults. They stay on one machine, so they use its byte order. Thread: any (values). Bound:
// kMessageBytesMax.

#include "src/soft/fault_plan.h"
#include "src/verbs/cable_datagrams.h"

#include <infiniband/verbs.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace mesh::soft {

inline constexpr std::uint32_t kRendezvousMagic = 0x6d736d74;
inline constexpr std::uint32_t kRendezvousVersion = 9;
inline constexpr std::uint32_t kHello = 1, kWelcome = 2, kOffer = 3, kFault = 4, kFaultAnswer = 5,
                               kDatagram = 6, kJoin = 7, kJoined = 8;

// A JOIN is a prefix. It asks for the host's state, whose descriptor comes with JOINED, a prefix
// too.
struct Prefix {
  std::uint32_t magic = kRendezvousMagic, version = kRendezvousVersion, type = 0, reserved = 0;
};
// Comes with the descriptors of the board, of the wake-ups of its agent and of its waiters, and, if
// cards' slots have rates, of the host's state. A WELCOME has the form of a HELLO.
struct HelloMessage {
  Prefix prefix;
  char host[kNameRoom] = {};
  std::uint64_t probe_address = 0, probe_value = 0;
};
// Comes with the descriptor of the ring.
struct OfferMessage {
  Prefix prefix;
  ibv_gid gid;
  std::int32_t from_nic, to_nic;
  std::uint32_t from_qp_num, to_qp_num, slots;
  std::uint16_t streams, pkey, to_lid, gid_type;
};
struct DatagramMessage {
  Prefix prefix;
  std::array<std::uint8_t, 16> from_address;
  std::array<std::uint8_t, 4> from_ipv4;
  std::uint16_t from_port, to_port;
  std::int32_t to_nic;
  std::uint32_t bytes;
  std::array<std::byte, verbs::kCableDatagramBytesMax> data;
};
// Orders a fault. No HELLO comes before it.
struct FaultMessage {
  Prefix prefix;
  Name nic{}, peer_host{};
  std::uint32_t verb = 0, kind = 0, status = 0;
  std::int32_t queue_pair = 0;
  std::uint64_t after_work_requests = 0, work_requests = 0, after_ns = 0, duration_ns = 0,
                delay_ns = 0, seed = 0, mtu = 0;
};
struct FaultAnswerMessage {
  Prefix prefix;
  std::int32_t code = 0;  // Errc
  std::uint32_t count = 0, port_up = 0, connected = 0;
  std::uint64_t work_requests = 0, bytes = 0;
};
inline constexpr std::size_t kMessageBytesMax = 640;
static_assert(sizeof(HelloMessage) <= kMessageBytesMax && sizeof(OfferMessage) <= kMessageBytesMax);
static_assert(sizeof(DatagramMessage) <= kMessageBytesMax);
static_assert(sizeof(FaultMessage) <= kMessageBytesMax &&
              sizeof(FaultAnswerMessage) <= kMessageBytesMax);

template <typename T>
std::vector<std::byte> bytes_of(const T& value) {
  const auto* from = reinterpret_cast<const std::byte*>(&value);
  return {from, from + sizeof value};
}

// Returns the name of the socket where this user's processes meet a process of a host of that
// universe.
std::string rendezvous_name(const std::string& universe, const std::string& host, int slot);

}  // namespace mesh::soft

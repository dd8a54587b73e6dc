#pragma once
// The cables between two hosts as frames tell them, and how they are found out. Thread: any
// (values). Bound: kRailsMax rails of each host.

#include "engine/control/wire_values.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace mesh::engine {

inline constexpr std::size_t kWireProofBytesMax = 1 + 22 * kRailsMax + 32 + 8;
// The place at which a rail's net device takes datagrams, as in verbs::DatagramPlace: a link-local
// IPv6 address, an IPv4 address, and a UDP port. Zeros: it has none, or takes none.
struct WirePlace {
  std::array<std::uint8_t, 16> address{};
  std::array<std::uint8_t, 4> ipv4{};
  std::uint16_t port = 0;
  friend bool operator==(const WirePlace&, const WirePlace&) = default;
};
// The connector's part of a proof: with it an acceptor finds out which rails are on one wire.
struct WireProof {
  std::vector<WirePlace> places;  // of every rail, or none if addresses leave no choice
  Id128 ask{}, answer{};          // the nonces of questions and of answers
  std::uint64_t shared = 0;       // bits: rails whose subnet is known to be on several cables
};

void proof_fields(auto& io, auto& proof) {
  io.list(proof.places, {0, kRailsMax}, [&io](auto& place) {
    io.id(place.address);
    io.id(place.ipv4);
    io.u16(place.port);
  });
  io.id(proof.ask);
  io.id(proof.answer);
  io.u64(proof.shared);
}

inline constexpr std::size_t kWireCablesBytesMax = 1 + (1 + 8 + 8) * kRailsMax;

// The cables of one rail to a host, where datagrams have told them. Each bit is a rail of that
// host.
struct WireCables {
  std::uint8_t rail = 0;
  std::uint64_t asked = 0, met = 0;  // pairs that were asked, and those that are on one wire
  friend bool operator==(const WireCables&, const WireCables&) = default;
};
static_assert(kRailsMax <= 64, "a rail is a bit");

void cables_fields(auto& io, auto& cables) {
  io.list(cables, {0, kRailsMax}, [&io](auto& each) {
    io.u8(each.rail, {0, kRailsMax - 1});
    io.u64(each.asked);
    io.u64(each.met);
  });
}

}  // namespace mesh::engine

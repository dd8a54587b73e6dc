#pragma once
// The values that several frames hold, each with its layout: a function that passes the fields to
// an Encoder or a Decoder in their order. Thread: any (values). Bounds: those below.

#include <mesh/policy.h>

#include "engine/control/frame_codec.h"
#include "engine/message/id128.h"
#include "engine/message/wire.h"
#include "src/base/socket.h"
#include "src/relay/wire.h"

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <sys/socket.h>

namespace mesh::engine {

inline constexpr std::uint32_t kTextBytesMax = 512;
inline constexpr std::uint32_t kRailAddressesMax = 8;
inline constexpr std::uint32_t kControlAddressesMax = 16;
inline constexpr std::uint32_t kRailNameBytesMax = 64;
inline constexpr std::uint32_t kDepthMax = 65536;      // far above the range of NCCL_MESH_RQ_DEPTH
inline constexpr std::uint32_t kPrefixLenMax = 128;    // of an IPv6 address
inline constexpr std::uint32_t kMtuMin = 1;            // IBV_MTU_256
inline constexpr std::uint32_t kMtuMax = 5;            // IBV_MTU_4096
inline constexpr std::uint32_t k24BitsMax = 0xffffff;  // queue pair and packet numbers
inline constexpr std::uint32_t kPortMax = 255;
inline constexpr std::uint32_t kGidTypeMax = 2;  // verbs::GidType::RoceV2
inline constexpr std::uint32_t kServiceLevelMax = 15;
inline constexpr std::uint32_t kSiteBytesMax = 64;
inline constexpr std::uint32_t kRelayPlacesMax = 4;  // paths over other hosts that stand by

inline constexpr std::size_t kWireRailBytesMax =
    1 + 17 * kRailAddressesMax + 5 + 1 + 2 + 4 + 4 + 8 + 2 + kRailNameBytesMax;
inline constexpr std::size_t kWireMeetBytes = 5;
inline constexpr std::size_t kWirePathBytesMax =
    kWireMeetBytes + 1 + 4 * (1 + kQpsMax) + 4 + 2 + 8 + 4 + 12;
inline constexpr std::size_t kWireHopBytesMax = 17 + 2 + 1 + 4 + 1 + (1 + kQpsMax) * (4 + 12 + 24);

struct WireAddress {
  std::array<std::uint8_t, 16> gid{};
  std::uint8_t prefix_len = 0;  // bits of the address family
  friend bool operator==(const WireAddress&, const WireAddress&) = default;
};

struct WireRail {
  std::vector<WireAddress> addresses;  // 1 to kRailAddressesMax, the preferred one first
  std::uint8_t ethernet = 1;
  std::uint8_t port = 1;
  std::uint8_t mtu = 0;  // ibv_mtu
  std::uint8_t up = 1;   // its port is up at this moment
  std::uint8_t leaves_site = 1;
  std::uint8_t gid_type = 0;         // of its addresses, verbs::GidType
  std::uint16_t partition = 0xffff;  // InfiniBand: its partition key
  std::uint32_t identity = 0;        // verbs::Rail::identity
  std::uint32_t speed_mbps = 0;
  std::uint8_t slot_has_room = 0;  // 1: its PCIe slot carries all ports of the host that share it
  std::uint64_t guid = 0;          // with the port names the cable; 0: not known
  std::string name;                // for log lines, up to 64 bytes
};

// Options of a device's maker for queue pairs (enhanced connection establishment), as in ibv_ece.
struct WireEce {
  std::uint32_t vendor = 0;  // 0: no options
  std::uint32_t options = 0, mask = 0;
  friend bool operator==(const WireEce&, const WireEce&) = default;
};

// The queue pairs of one path: [0] is express, the others bulk.
struct WirePath {
  std::uint8_t connector_rail = 0;     // index into the connector's rails
  std::uint8_t connector_address = 0;  // index into that rail's addresses
  std::uint8_t acceptor_rail = 0;
  std::uint8_t acceptor_address = 0;
  std::uint8_t mtu = 0;  // the smaller of both ports', ibv_mtu
  // Queue pairs of the sender of this frame: 1 + qps, or 1 if the bulk ones are made late.
  std::vector<std::uint32_t> qpn;
  std::uint32_t psn = 0;  // the sender's first packet number on each of them
  std::uint16_t lid = 0;  // of the sender's port at this moment (InfiniBand)
  // The memory that the peer writes: the connector's window words, kWindowWords of 8 bytes for each
  // queue pair of the path, or the acceptor's memory for probes, as long as the path's MTU.
  std::uint64_t counters_address = 0;
  std::uint32_t counters_rkey = 0;
  // The side that tells its queue pairs first tells what its device offers for each of them. The
  // answering side tells what its device has accepted of that.
  WireEce ece{};
};

// The queue pairs of a host of a relayed path, as the next host on the way sees them.
struct WireHopQp {
  std::uint32_t qpn = 0;
  relay::CountsTarget counts{};  // where the neighbour writes what it has taken
  relay::RingTarget ring{};      // where the neighbour writes what must go on; no slots: an end
  friend bool operator==(const WireHopQp&, const WireHopQp&) = default;
};
struct WireHop {
  WireAddress address{};  // the host's address towards that neighbour
  std::uint16_t lid = 0;
  std::uint8_t mtu = 0;
  std::uint32_t psn = 0;
  std::vector<WireHopQp> qps{};  // as many as the path has queue pairs
  friend bool operator==(const WireHop&, const WireHop&) = default;
};

// The choice among the paths that a link could use: NCCL_MESH_RAILS of the connecting side.
enum class RailsWish : std::uint8_t { Auto, Asked, All };
struct AskedRails {
  std::uint8_t rail = 0;      // the connector's rail that NCCL named at connect
  std::uint8_t listened = 0;  // the acceptor's rail that NCCL named at listen
  RailsWish wish = RailsWish::Auto;
  friend bool operator==(const AskedRails&, const AskedRails&) = default;
};

void rail_fields(auto& io, auto& rail) {
  io.list(rail.addresses, {1, kRailAddressesMax}, [&io](auto& address) {
    io.id(address.gid);
    io.u8(address.prefix_len, {0, kPrefixLenMax});
  });
  io.u8(rail.ethernet, {0, 1});
  io.u8(rail.port, {1, kPortMax});
  io.u8(rail.mtu, {kMtuMin, kMtuMax});
  io.u8(rail.up, {0, 1});
  io.u8(rail.leaves_site, {0, 1});
  io.u8(rail.gid_type, {0, kGidTypeMax});
  io.u16(rail.partition);
  io.u32(rail.identity);
  io.u32(rail.speed_mbps);
  io.u8(rail.slot_has_room, {0, 1});
  io.u64(rail.guid);
  io.text(rail.name, kRailNameBytesMax);
}

void ends_fields(auto& io, auto& path) {
  io.u8(path.connector_rail, {0, kRailsMax - 1});
  io.u8(path.connector_address, {0, kRailAddressesMax - 1});
  io.u8(path.acceptor_rail, {0, kRailsMax - 1});
  io.u8(path.acceptor_address, {0, kRailAddressesMax - 1});
  io.u8(path.mtu, {kMtuMin, kMtuMax});
}

void path_fields(auto& io, auto& path) {
  ends_fields(io, path);
  io.list(path.qpn, {1, 1 + kQpsMax}, [&io](auto& number) { io.u32(number, {0, k24BitsMax}); });
  io.u32(path.psn, {0, k24BitsMax});
  io.u16(path.lid);
  io.u64(path.counters_address);
  io.u32(path.counters_rkey);
  io.u32(path.ece.vendor);
  io.u32(path.ece.options);
  io.u32(path.ece.mask);
}

void addresses_fields(auto& io, auto& addresses) {
  io.list(addresses, {1, kControlAddressesMax}, [&io](auto& address) {
    io.u16(address.family);
    io.require(address.family == AF_INET || address.family == AF_INET6);
    io.id(address.bytes);
  });
}

void hop_fields(auto& io, auto& hop) {
  io.id(hop.address.gid);
  io.u8(hop.address.prefix_len, {0, kPrefixLenMax});
  io.u16(hop.lid);
  io.u8(hop.mtu, {kMtuMin, kMtuMax});
  io.u32(hop.psn, {0, k24BitsMax});
  io.list(hop.qps, {1, 1 + kQpsMax}, [&io](auto& qp) {
    io.u32(qp.qpn, {0, k24BitsMax});
    io.u64(qp.counts.address);
    io.u32(qp.counts.rkey);
    io.u64(qp.ring.address);
    io.u32(qp.ring.rkey);
    io.u32(qp.ring.slots);
    io.u32(qp.ring.payload_bytes);
    io.u32(qp.ring.wr_bytes);
    io.require(qp.ring.slots == 0 || relay::is_ring(qp.ring));
  });
}

void paths_fields(auto& io, auto& paths) {
  io.list(paths, {0, kPathsMax}, [&io](auto& each) { path_fields(io, each); });
}

void down_fields(auto& io, auto& down) {
  io.list(down, {0, kPathsMax}, [&io](auto& path) { io.u8(path, {0, kPathsMax - 1}); });
}

void asked_fields(auto& io, auto& asked) {
  io.u8(asked.rail);
  io.u8(asked.listened);
  io.choice(asked.wish, RailsWish::All);
}

// ---- Parts of bodies.
void hosts_fields(auto& io, auto& body) {
  io.text(body.host, kTextBytesMax);
  io.u64(body.host_id);
  io.u32(body.qps, {1, kQpsMax});
  io.u32(body.rq_depth, {1, kDepthMax});
  io.u32(body.slots, {1, kSlotsMax});
  io.require(std::has_single_bit(body.rq_depth) && std::has_single_bit(body.slots));
  io.list(body.rails, {1, kRailsMax}, [&io](auto& rail) { rail_fields(io, rail); });
}
void credit_range_fields(auto& io, auto& body) {
  io.u32(body.channel, {0, kChannelsMax - 1});
  io.u64(body.first_credit);
  io.u64(body.credit_count);
  io.require(body.credit_count <= UINT64_MAX - body.first_credit);
}
void path_epoch_fields(auto& io, auto& body) {
  io.u8(body.path, {0, kPathsMax - 1});
  io.u32(body.epoch);
}

}  // namespace mesh::engine

#pragma once
// The fields that the layouts of several messages share, and the functions that make a frame of a
// body. Only frames.cc and relay_frames.cc include it. Thread: any (values). Bound: kBodyBytesMax.

#include "engine/control/frame_codec.h"
#include "engine/control/frames.h"
#include "src/base/byte_order.h"
#include "src/base/check.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include <sys/socket.h>

namespace mesh::engine {

inline constexpr std::uint32_t kRailNameBytesMax = 64;
inline constexpr std::uint32_t kDepthMax = 65536;      // far above the range of NCCL_MESH_RQ_DEPTH
inline constexpr std::uint32_t kPrefixLenMax = 128;    // of an IPv6 address
inline constexpr std::uint32_t kMtuMin = 1;            // IBV_MTU_256
inline constexpr std::uint32_t kMtuMax = 5;            // IBV_MTU_4096
inline constexpr std::uint32_t k24BitsMax = 0xffffff;  // queue pair and packet numbers
inline constexpr std::uint32_t kPortMax = 255;
inline constexpr std::uint32_t kServiceLevelMax = 15;
inline constexpr std::uint32_t kSiteBytesMax = 64;

inline constexpr std::size_t kWireRailBytesMax =
    1 + 17 * kRailAddressesMax + 5 + 4 + 4 + 8 + 2 + kRailNameBytesMax;
inline constexpr std::size_t kWireMeetBytes = 5;
inline constexpr std::size_t kWirePathBytesMax =
    kWireMeetBytes + 1 + 4 * (1 + kQpsMax) + 4 + 2 + 8 + 4 + 12;
inline constexpr std::size_t kWireHopBytesMax = 17 + 2 + 1 + 4 + 1 + (1 + kQpsMax) * (4 + 12 + 24);

template <typename Io>
using RailOf = typename Io::template Of<WireRail>;
template <typename Io>
using PathOf = typename Io::template Of<WirePath>;

template <typename Io>
void rail_fields(Io& io, RailOf<Io>& rail) {
  io.list(rail.addresses, {1, kRailAddressesMax}, [&io](auto& address) {
    io.id(address.gid);
    io.u8(address.prefix_len, {0, kPrefixLenMax});
  });
  io.u8(rail.ethernet, {0, 1});
  io.u8(rail.port, {1, kPortMax});
  io.u8(rail.mtu, {kMtuMin, kMtuMax});
  io.u8(rail.up, {0, 1});
  io.u8(rail.leaves_site, {0, 1});
  io.u32(rail.identity);
  io.u32(rail.speed_mbps);
  io.u64(rail.guid);
  io.text(rail.name, kRailNameBytesMax);
}

template <typename Io>
void ends_fields(Io& io, PathOf<Io>& path) {
  io.u8(path.connector_rail, {0, kRailsMax - 1});
  io.u8(path.connector_address, {0, kRailAddressesMax - 1});
  io.u8(path.acceptor_rail, {0, kRailsMax - 1});
  io.u8(path.acceptor_address, {0, kRailAddressesMax - 1});
  io.u8(path.mtu, {kMtuMin, kMtuMax});
}

template <typename Io>
void path_fields(Io& io, PathOf<Io>& path) {
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

template <typename Io, typename Addresses>
void addresses_fields(Io& io, Addresses& addresses) {
  io.list(addresses, {1, kControlAddressesMax}, [&io](auto& address) {
    io.u16(address.family);
    io.require(address.family == AF_INET || address.family == AF_INET6);
    io.id(address.bytes);
  });
}

template <typename Io>
void hop_fields(Io& io, typename Io::template Of<WireHop>& hop) {
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

inline void write_header(const FrameHeader& header, std::span<std::byte> out) {
  ByteWriter writer(out);
  writer.put_u32(kFrameMagic);
  writer.put_u16(kProtocolVersion);
  writer.put_u16(static_cast<std::uint16_t>(header.type));
  writer.put_u32(header.body_bytes);
  writer.put_u32(header.epoch);
  writer.put_u64(header.sequence);
  writer.put_bytes(std::as_bytes(std::span(header.link)));
  writer.put_u64(header.acknowledged);
  DCHECK(writer.ok() && writer.size() == kFrameHeaderBytes);
}

// `fill` writes the body's layout with the encoder.
template <typename Fill>
Bytes encode_frame(FrameHeader header, MessageType type, const Fill& fill) {
  Bytes frame(kFrameHeaderBytes + kBodyBytesMax);
  Encoder encoder{std::span(frame).subspan(kFrameHeaderBytes)};
  fill(encoder);
  DCHECK(encoder.size() <= kBodyBytesMax);
  header.type = type;
  header.body_bytes = static_cast<std::uint32_t>(encoder.size());
  write_header(header, std::span(frame).first(kFrameHeaderBytes));
  frame.resize(kFrameHeaderBytes + encoder.size());
  frame.shrink_to_fit();
  return frame;
}

// `read` reads the body's layout with the decoder.
template <typename Body, typename Read>
Status decode_body(std::span<const std::byte> bytes, Body* out, const Read& read) {
  Decoder decoder{bytes};
  Body body;
  read(decoder, body);
  if (!decoder.complete()) return Errc::Protocol;
  *out = std::move(body);
  return {};
}

// The only definitions of encode() and decode(). frames.cc and relay_frames.cc instantiate them for
// their messages, behind the layouts.
template <typename Body>
Bytes encode(FrameHeader header, const Body& body) {
  return encode_frame(header, Body::kType, [&body](Encoder& io) { Body::fields(io, body); });
}

template <typename Body>
Status decode(const std::byte* body, std::size_t size, Body* out) {
  return decode_body({body, size}, out, [](Decoder& io, Body& read) { Body::fields(io, read); });
}

}  // namespace mesh::engine

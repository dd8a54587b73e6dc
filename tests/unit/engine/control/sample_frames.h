#pragma once
// A sample of each frame, and a header of a control message in which every byte tells its place.
// Thread: any.

#include "engine/control/frames.h"
#include "engine/control/relay_frames.h"
#include "tests/prelude.h"

namespace mesh::engine {

inline Id128 id_of(std::uint8_t first) {
  Id128 id{};
  for (std::size_t i = 0; i < id.size(); ++i) id[i] = static_cast<std::uint8_t>(first + i);
  return id;
}

inline FrameHeader sample_header() {
  FrameHeader header;
  header.epoch = 0x01020304;
  header.sequence = 0x1122334455667788;
  header.acknowledged = 0x2132435465768798;
  header.link = id_of(0x40);
  return header;
}

inline WireRail sample_rail(std::uint8_t number) {
  WireRail rail;
  rail.addresses = {{.gid = id_of(number), .prefix_len = 24},
                    {.gid = id_of(0x70), .prefix_len = 64}};
  rail.ethernet = 1;
  rail.port = 2;
  rail.mtu = 5;
  rail.up = 0;
  rail.leaves_site = 0;
  rail.gid_type = 2;
  rail.partition = 0x8123;
  rail.identity = 0x81234567;
  rail.speed_mbps = 200000;
  rail.slot_has_room = 1;
  rail.guid = 0x1122334455667788;
  rail.name = "rail" + std::to_string(number);
  return rail;
}

inline WirePath sample_pair(std::uint8_t rail) {
  WirePath path;
  path.connector_rail = rail, path.connector_address = 1;
  path.acceptor_rail = 0, path.acceptor_address = 5;
  path.mtu = 3;
  return path;
}

inline WirePath sample_path(std::uint8_t rail, std::uint32_t qps) {
  WirePath path = sample_pair(rail);
  for (std::uint32_t i = 0; i <= qps; ++i) path.qpn.push_back(0x10000u + i);
  path.psn = 0xabcdef, path.lid = 0xbfff;
  path.counters_address = 0xfedcba9876543210;
  path.counters_rkey = 77;
  path.ece = {.vendor = 0x15b3, .options = 0xf0000001, .mask = 2};
  return path;
}

inline WireHop sample_hop(std::uint32_t qps) {
  WireHop hop{.address = {.gid = id_of(3), .prefix_len = 24}, .lid = 7, .mtu = 5, .psn = 0xabcdef};
  for (std::uint32_t i = 0; i < qps; ++i) {
    hop.qps.push_back({.qpn = 17 + i,
                       .counts = {.address = 0x7f0000001000, .rkey = 5},
                       .ring = {.address = 0x7f0000002000,
                                .rkey = 6,
                                .slots = 64,
                                .payload_bytes = 1 << 20,
                                .wr_bytes = 65536}});
  }
  return hop;
}

inline WireHost sample_host() {
  WireHost host;
  host.host_id = 7;
  host.ticket = id_of(9);
  host.name = "b";
  host.port = 4711;
  host.addresses = {{.family = AF_INET, .bytes = {10, 0, 0, 1}}};
  WireRail& rail = host.rails.emplace_back();
  rail.addresses = {{.gid = id_of(1), .prefix_len = 24}};
  rail.mtu = 5;
  rail.name = "n0";
  host.cables = {{.rail = 2, .asked = 0x8000000000000005, .met = 4}};
  return host;
}

// Fills in fields that are in range and all differ. It is no sample of a body whose fields depend
// on each other.
class Filler {
 public:
  void u8(std::uint8_t& value, Range range = {0, UINT8_MAX}) { fill(value, range); }
  void u16(std::uint16_t& value) { fill(value, {1, UINT16_MAX}); }
  void u32(std::uint32_t& value, Range range = {0, UINT32_MAX}) { fill(value, range); }
  void u64(std::uint64_t& value) { fill(value, {0, UINT64_MAX / 2}); }
  template <std::size_t kBytes>
  void id(std::array<std::uint8_t, kBytes>& value) {
    std::copy_n(id_of(next()).begin(), kBytes, value.begin());
  }
  void errc(Errc& value) { value = Errc::Exhausted; }
  template <typename Enum>
  void choice(Enum& value, Enum last) {
    value = last;
  }
  void text(std::string& value, std::size_t) { value = "text" + std::to_string(next()); }
  template <typename T, typename Each>
  void list(std::vector<T>& values, Range count, Each&& each) {
    values.resize(std::clamp<std::size_t>(2, count.min, count.max));
    for (T& value : values) each(value);
  }
  void require(bool) {}

 private:
  template <typename Number>
  void fill(Number& value, Range range) {
    const std::uint64_t any = 0x9e3779b97f4a7c15 * next();
    const std::uint64_t span = range.max - range.min + 1;
    value = static_cast<Number>(range.min + any % span);
  }
  std::uint8_t next() { return ++count_; }

  std::uint8_t count_ = 0;
};

template <typename Body>
Body sample() {
  Body body;
  Filler filler;
  Body::fields(filler, body);
  return body;
}

template <>
inline Hello sample<Hello>() {
  return {
      id_of(1),
      id_of(2),
      "host-a",
      0xfedcba9876543211,
      4,
      256,
      64,
      {.rail = 1, .listened = 2, .wish = RailsWish::Asked},
      {sample_rail(3), sample_rail(4)},
      4711,
      {{.family = AF_INET, .bytes = {10, 0, 0, 1}}, {.family = AF_INET6, .bytes = id_of(0x20)}},
      {id_of(15), id_of(16)},
      104,
      13,
      "east",
      2048,
      id_of(17),
      1,
      8,
      {.places = {{id_of(18), {10, 0, 0, 1}, 40'000}, {}}, .ask = id_of(19), .answer = id_of(20)}};
}
template <>
inline Welcome sample<Welcome>() {
  Welcome body{"host-b", 7, 2, 16, 32, {sample_rail(5)}, {sample_path(0, 2), sample_path(7, 2)}};
  body.meet = {sample_pair(0), sample_pair(7), sample_pair(3)};
  body.site = "west";
  body.cables = {{.rail = 0, .asked = 3, .met = 1}, {.rail = 63, .asked = 2, .met = 0}};
  return body;
}
template <>
inline Open sample<Open>() {
  return {id_of(9), 8190, 0xa1b2c3d4, 0x7f0000001000, {1, 2, 3}};
}
template <>
inline Reopened sample<Reopened>() {
  return {.path = 7,
          .epoch = 19,
          .result = Errc::Ok,
          .ends = {sample_path(1, 3)},
          .rail = 63,
          .card = 0x81234567};
}
template <>
inline CardKeys sample<CardKeys>() {
  return {.rail = 62, .keys = {{.first = 0, .rkey = 0x81234567}, {.first = 8190, .rkey = 5}}};
}
template <>
inline PortUp sample<PortUp>() {
  return {.rail = 61};
}
template <>
inline Widen sample<Widen>() {
  return {.path = 2, .epoch = 18, .ends = sample_path(1, 4)};
}
template <>
inline Widened sample<Widened>() {
  return {7, 19, Errc::Ok, "", {sample_path(1, 4)}};
}
template <>
inline PeersAre sample<PeersAre>() {
  return {.left = 3, .host = {sample_host()}};
}
template <>
inline Chain sample<Chain>() {
  const ChainSizes sizes{.qps = 5, .sq_depth = 256, .express_bytes = 8192, .wr_bytes = 524288};
  return {.ticket = id_of(1), .chain = 7, .far_rail = 2, .sizes = sizes};
}
template <>
inline Chained sample<Chained>() {
  return {.chain = 5, .ends = {sample_hop(3), sample_hop(3)}};
}
template <>
inline Join sample<Join>() {
  return {.chain = 6, .near = sample_hop(1), .far = sample_hop(2)};
}
template <>
inline Reopen sample<Reopen>() {
  return {.path = 2, .epoch = 18, .ends = sample_path(1, 5), .via = {sample_hop(2)}, .over = "c"};
}

}  // namespace mesh::engine

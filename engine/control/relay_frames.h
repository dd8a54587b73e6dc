#pragma once
// The frames by which a path over other hosts is made. The connector of a link leads: it asks hosts
// that it knows which hosts they know, and then asks each middle host of the route for the queue
// pairs of its part. These frames travel on connections of their own, from the connector to each
// host. A process that shows a host's ticket has heard it from a peer of that host's job. Thread:
// any (values). Bound: kBodyBytesMax.

#include "engine/control/frames.h"

#include <cstdint>
#include <string>
#include <vector>

namespace mesh::engine {

inline constexpr std::uint64_t kLongestMax = std::uint64_t{1} << 30;  // of a work request

// A host that takes part in relays.
struct WireHost {
  Id128 ticket{};  // not zero
  std::string name;
  std::uint64_t host_id = 0;  // as in HELLO; 0: it is not known
  std::uint16_t port = 0;
  std::vector<SocketAddress> addresses;  // of its control port
  std::vector<WireRail> rails;
  std::vector<WireCables> cables{};  // to it, of the host that tells of it
  static void fields(auto& io, auto& host) {
    io.id(host.ticket);
    io.text(host.name, kTextBytesMax);
    io.u64(host.host_id);
    io.u16(host.port);
    io.require(host.port != 0 && host.ticket != Id128{});
    addresses_fields(io, host.addresses);
    io.list(host.rails, {1, kRailsMax}, [&io](auto& rail) { rail_fields(io, rail); });
    cables_fields(io, host.cables);
  }
};

// A process that shows a host's ticket asks which hosts it has links to, or has found over its
// cables. With `look` it finds no way over those that it knows: the host asks over its cables, too,
// and answers again when it has found more.
struct AskPeers {
  static constexpr FrameKind kKind{MessageType::AskPeers, "ASK PEERS", By::Either, When::Relay};
  Id128 ticket{};
  std::uint8_t look = 0;
  static void fields(auto& io, auto& body) {
    io.id(body.ticket);
    io.u8(body.look, {0, 1});
  }
};
// Tells one of these hosts. In the last frame `left` is 0.
struct PeersAre {
  static constexpr FrameKind kKind{MessageType::PeersAre, "PEERS ARE", By::Either, When::Relay};
  std::uint16_t left = 0;
  std::vector<WireHost> host{};  // at most one; empty: there is no host
  static void fields(auto& io, auto& body) {
    io.u16(body.left);
    io.list(body.host, {0, 1}, [&io](auto& each) { WireHost::fields(io, each); });
    io.require(!body.host.empty() || body.left == 0);
  }
};

// The sizes that the queue pairs of one path need on a middle host. Queue pair 0 is express.
struct ChainSizes {
  std::uint32_t qps = 0;  // queue pairs of the path, including the express one
  std::uint32_t sq_depth = 0;
  std::uint64_t express_bytes = 0, wr_bytes = 0;  // the longest work request
  friend bool operator==(const ChainSizes&, const ChainSizes&) = default;
};
// Asks a middle host for the queue pairs of a relayed path. Near is the connector's side of a
// middle host, far the acceptor's.
struct Chain {
  static constexpr FrameKind kKind{MessageType::Chain, "CHAIN", By::Either, When::Relay};
  Id128 ticket{};
  std::uint64_t chain = 0;  // the asker's number for all the queue pairs of one path
  std::uint8_t near_rail = 0, near_address = 0, far_rail = 0,
               far_address = 0;  // of the middle host
  ChainSizes sizes{};
  std::uint8_t traffic_class = 0, service_level = 0;
  static void fields(auto& io, auto& body) {
    io.id(body.ticket);
    io.u64(body.chain);
    io.u8(body.near_rail, {0, kRailsMax - 1});
    io.u8(body.near_address, {0, kRailAddressesMax - 1});
    io.u8(body.far_rail, {0, kRailsMax - 1});
    io.u8(body.far_address, {0, kRailAddressesMax - 1});
    io.u32(body.sizes.qps, {1, 1 + kQpsMax});
    io.u32(body.sizes.sq_depth, {16, kDepthMax});
    io.require(std::has_single_bit(body.sizes.sq_depth));
    io.u64(body.sizes.express_bytes);
    io.u64(body.sizes.wr_bytes);
    io.require(body.sizes.express_bytes <= kLongestMax && body.sizes.wr_bytes <= kLongestMax);
    io.u8(body.traffic_class);
    io.u8(body.service_level, {0, kServiceLevelMax});
  }
};
// The queue pairs are made, or why not.
struct Chained {
  static constexpr FrameKind kKind{MessageType::Chained, "CHAINED", By::Either, When::Relay};
  std::uint64_t chain = 0;
  Errc result = Errc::Ok;
  std::string text{};           // why not, if refused
  std::vector<WireHop> ends{};  // near and far; none where the result is not Ok
  static void fields(auto& io, auto& body) {
    io.u64(body.chain);
    io.errc(body.result);
    io.text(body.text, kTextBytesMax);
    io.list(body.ends, {0, 2}, [&io](auto& hop) { hop_fields(io, hop); });
    io.require(body.ends.size() == (body.result == Errc::Ok ? 2 : 0));
  }
};
// Names the neighbours' queue pairs on both sides.
struct Join {
  static constexpr FrameKind kKind{MessageType::Join, "JOIN", By::Either, When::Relay};
  std::uint64_t chain = 0;
  WireHop near{}, far{};  // the neighbours, towards the middle host
  static void fields(auto& io, auto& body) {
    io.u64(body.chain);
    hop_fields(io, body.near);
    hop_fields(io, body.far);
  }
};
// Bytes may pass, or why not.
struct Joined {
  static constexpr FrameKind kKind{MessageType::Joined, "JOINED", By::Either, When::Relay};
  std::uint64_t chain = 0;
  Errc result = Errc::Ok;
  std::string text{};
  static void fields(auto& io, auto& body) {
    io.u64(body.chain);
    io.errc(body.result);
    io.text(body.text, kTextBytesMax);
  }
};
// A side tells that the chains have ended.
struct Cut {
  static constexpr FrameKind kKind{MessageType::Cut, "CUT", By::Either, When::Relay};
  std::uint64_t chain = 0;
  std::string text{};
  static void fields(auto& io, auto& body) {
    io.u64(body.chain);
    io.text(body.text, kTextBytesMax);
  }
};

using RelayFrames = FrameList<AskPeers, PeersAre, Chain, Chained, Join, Joined, Cut>;

// Returns a bit for each type that the list has a frame of.
template <typename... Frames>
constexpr std::uint64_t types_of(FrameList<Frames...>) {
  return ((std::uint64_t{1} << static_cast<int>(Frames::kKind.type)) | ...);
}
static_assert((types_of(LinkFrames{}) | types_of(RelayFrames{})) ==
                  (std::uint64_t{1} << static_cast<int>(MessageType::End)) - 2,
              "every type has a frame in a list");

}  // namespace mesh::engine

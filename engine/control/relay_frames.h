#pragma once
// The frames by which a path over other hosts is made. The connector of a link leads: it asks hosts
// that it knows which hosts they know, and then asks each middle host of the route for the queue
// pairs of its part. These frames travel on connections of their own, from the connector to each
// host. A process that shows a host's ticket has heard it from a peer of that host's job. Thread:
// any (values). Bound: kBodyBytesMax.

#include "engine/control/frames.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace mesh::engine {

// A host that takes part in relays.
struct WireHost {
  Id128 ticket{};  // not zero
  std::string name;
  std::uint16_t port = 0;
  std::vector<SocketAddress> addresses;  // of its control port
  std::vector<WireRail> rails;
};

struct AskPeers {
  static constexpr MessageType kType = MessageType::AskPeers;
  template <typename Io>
  static void fields(Io& io, typename Io::template Of<AskPeers>& body);
  Id128 ticket{};
};
// One frame for each host; in the last frame `left` is 0.
struct PeersAre {
  static constexpr MessageType kType = MessageType::PeersAre;
  template <typename Io>
  static void fields(Io& io, typename Io::template Of<PeersAre>& body);
  std::uint16_t left = 0;
  std::vector<WireHost> host{};  // at most one; empty: there is no host
};

// The sizes that the queue pairs of one path need on a middle host. Queue pair 0 is express.
struct ChainSizes {
  std::uint32_t qps = 0;  // queue pairs of the path, including the express one
  std::uint32_t sq_depth = 0;
  std::uint64_t express_bytes = 0, wr_bytes = 0;  // the longest work request
  friend bool operator==(const ChainSizes&, const ChainSizes&) = default;
};
// Near is the connector's side of a middle host, far the acceptor's.
struct Chain {
  static constexpr MessageType kType = MessageType::Chain;
  template <typename Io>
  static void fields(Io& io, typename Io::template Of<Chain>& body);
  Id128 ticket{};
  std::uint64_t chain = 0;  // the asker's number for all the queue pairs of one path
  std::uint8_t near_rail = 0, near_address = 0, far_rail = 0,
               far_address = 0;  // of the middle host
  ChainSizes sizes{};
  std::uint8_t traffic_class = 0, service_level = 0;
};
struct Chained {
  static constexpr MessageType kType = MessageType::Chained;
  template <typename Io>
  static void fields(Io& io, typename Io::template Of<Chained>& body);
  std::uint64_t chain = 0;
  Errc result = Errc::Ok;
  std::string text{};           // why not, if refused
  std::vector<WireHop> ends{};  // near and far; none where the result is not Ok
};
struct Join {
  static constexpr MessageType kType = MessageType::Join;
  template <typename Io>
  static void fields(Io& io, typename Io::template Of<Join>& body);
  std::uint64_t chain = 0;
  WireHop near{}, far{};  // the neighbours, towards the middle host
};
struct Joined {
  static constexpr MessageType kType = MessageType::Joined;
  template <typename Io>
  static void fields(Io& io, typename Io::template Of<Joined>& body);
  std::uint64_t chain = 0;
  Errc result = Errc::Ok;
  std::string text{};
};
struct Cut {
  static constexpr MessageType kType = MessageType::Cut;
  template <typename Io>
  static void fields(Io& io, typename Io::template Of<Cut>& body);
  std::uint64_t chain = 0;
  std::string text{};
};

}  // namespace mesh::engine

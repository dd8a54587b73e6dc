#pragma once
// The frames that control connections carry: a header of fixed size and a bounded body, with
// little-endian fields, and neither pointers nor padding. The frames of a link are numbered. A
// frame that is repeated after a connection was lost is recognised by its number (conversation.h).
// Encoding never fails for values in range; decoding validates every length and count. Thread: any
// (values). Bound: kBodyBytesMax.

#include <mesh/policy.h>
#include <mesh/status.h>

#include "engine/message/id128.h"
#include "src/base/socket.h"
#include "src/relay/wire.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace mesh::engine {

inline constexpr std::uint32_t kFrameMagic = 0x4d45534au;  // "MESJ" read little-endian
inline constexpr std::uint16_t kProtocolVersion = 13;
// The largest WELCOME fits: all rails with all addresses, all paths with all queue pairs.
inline constexpr std::uint32_t kBodyBytesMax = 16896;
// Bytes: magic 4, version 2, type 2, length 4, epoch 4, sequence 8, link 16, acknowledged 8.
inline constexpr std::size_t kFrameHeaderBytes = 48;
inline constexpr std::uint32_t kTextBytesMax = 512;
inline constexpr std::uint32_t kRailsMax = 64;
inline constexpr std::uint32_t kRailAddressesMax = 8;
inline constexpr std::uint32_t kControlAddressesMax = 16;
inline constexpr std::uint32_t kHelloListenersMax = 16;
inline constexpr std::uint32_t kMeetMax = 64;  // pairs of rails that meet

enum class MessageType : std::uint16_t {
  Hello = 1,  // the connector names itself, its rails and its wishes
  Welcome,    // the acceptor answers with its rails, the chosen paths and its queue pairs
  Attach,     // the connector sends its queue pairs
  Ready,      // the acceptor says that the link is up
  Refuse,     // either side refuses, with the reason
  Open,       // the connector asks for a channel to a listener
  Opened,     // the acceptor has opened it, or tells why not
  Revoke,     // either side takes back credits, or asks its peer to stop sending on a channel
  Revoked,    // the answer to Revoke, after the last use has completed
  Close,      // either side has closed its side of a channel
  Bye,        // the link has no channels left; nothing follows
  Fence,      // either side has stopped its queue pairs of a path, and tells what they took
  Reopen,     // the connector sends new queue pairs for a path that is down
  Reopened,   // the acceptor answers with its own, which are ready, or tells why not
  PathUp,     // the connector tells that the path carries data again
  // The following frames have number 0: they belong to a connection, not to the link's
  // conversation.
  Acknowledge,  // either side sends an acknowledgement and nothing else
  Resume,       // the connector, first on a new connection, continues a link on it
  Resumed,      // the acceptor confirms it
  Summon,       // the acceptor, on a connection of its own, asks to be dialed again
  // The connector tells that one connect has failed, on its link or first on a connection. Every
  // version from 8 on has this number and this layout for it.
  Decline,
  // Frames of relays: without a number, on connections of their own (relay_frames.h).
  AskPeers,  // a process that shows a host's ticket asks which hosts it has links to
  PeersAre,  // tells one of these hosts
  Chain,     // asks a middle host for the queue pairs of a relayed path
  Chained,   // the queue pairs are made, or why not
  Join,      // names the neighbours' queue pairs on both sides
  Joined,    // bytes may pass, or why not
  Cut,       // either side tells that the chains have ended
};
static_assert(static_cast<int>(MessageType::Decline) == 20);
inline constexpr MessageType kMessageTypeLast = MessageType::Cut;
constexpr bool is_of_relays(MessageType type) noexcept {
  return type >= MessageType::AskPeers && type <= MessageType::Cut;
}
constexpr bool is_aside(MessageType type) noexcept {
  return is_of_relays(type) || type == MessageType::Acknowledge || type == MessageType::Resume ||
         type == MessageType::Resumed || type == MessageType::Summon;
}

struct FrameHeader {
  MessageType type = MessageType::Hello;
  std::uint32_t body_bytes = 0;
  std::uint32_t epoch = 0;
  // Number among this side's frames on the link, from 1. 0: no frame of the conversation.
  std::uint64_t sequence = 0;
  // Number of the peer's last frame that was handled when this one was first sent.
  std::uint64_t acknowledged = 0;
  Id128 link{};
};

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
  std::uint32_t identity = 0;  // verbs::Rail::identity
  std::uint32_t speed_mbps = 0;
  std::uint64_t guid = 0;  // with the port names the cable; 0: not known
  std::string name;        // for log lines, up to 64 bytes
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
  std::uint8_t mtu = 0;            // the smaller of both ports', ibv_mtu
  std::vector<std::uint32_t> qpn;  // 1 + qps queue pairs of the sender of this frame
  std::uint32_t psn = 0;           // the sender's first packet number on each of them
  std::uint16_t lid = 0;           // of the sender's port at this moment (InfiniBand)
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

// In each message fields() is the layout of the body, for Encoder and Decoder (frame_codec.h).
struct Hello {
  static constexpr MessageType kType = MessageType::Hello;
  template <typename Io>
  static void fields(Io& io, typename Io::template Of<Hello>& body);
  Id128 connector_context{}, acceptor_context{};
  std::string host;  // for log lines
  std::uint32_t qps = 0, rq_depth = 0, slots = 0;
  AskedRails asked{};
  std::vector<WireRail> rails;
  // Our control port, for an acceptor that has lost the connection while we have not.
  std::uint16_t control_port = 0;
  std::vector<SocketAddress> control_addresses;
  // The listeners that our connects wait for. If none of them is open, no queue pairs are made.
  std::vector<Id128> listeners;
  // The marks of the packets in both directions: an acceptor need not know the communicator's wish.
  std::uint8_t traffic_class = 0, service_level = 0;
  std::string site{};                 // up to 64 bytes
  std::uint32_t site_rq_depth = 256;  // rq_depth, if the acceptor is at another site
  Id128 ticket{};                     // lets its holder ask us for relays; zero: we take no part
  std::uint8_t both_ways = 0;         // 1: messages may also go round over other hosts
  std::uint32_t half_qps = 2;         // qps of a link with several halves of a cable
};
struct Welcome {
  static constexpr MessageType kType = MessageType::Welcome;
  template <typename Io>
  static void fields(Io& io, typename Io::template Of<Welcome>& body);
  std::string host;
  std::uint32_t qps = 0, rq_depth = 0, slots = 0;  // the smaller of both sides
  std::vector<WireRail> rails;
  std::vector<WirePath> paths;
  // Every pair of rails that meets, without queue pairs: from these the connector computes the
  // paths that its other connects would use.
  std::vector<WirePath> meet{};
  // The standby paths among these, in the order of their use, after `paths`. Their queue pairs are
  // made only when no path is up.
  std::vector<WirePath> standby{};
  std::string no_path{};  // why there are no paths, for log lines; empty if there are some
  std::string site{};
  // Pairs of rails that other hosts may join: the last standby paths, or the only paths.
  std::vector<WirePath> relayed{};
  Id128 ticket{};
  // 1: the first pair of `relayed` is not a standby path but carries beside `paths`.
  std::uint8_t beside = 0;
};
struct Attach {
  static constexpr MessageType kType = MessageType::Attach;
  template <typename Io>
  static void fields(Io& io, typename Io::template Of<Attach>& body);
  std::vector<WirePath> paths;
  std::vector<std::uint8_t> down{};  // indices of paths that the connector could not bring up
  // The connection's round trip, as the connector measured it from HELLO to WELCOME. Used between
  // sites.
  std::uint32_t round_trip_us = 0;
};
struct Ready {
  static constexpr MessageType kType = MessageType::Ready;
  template <typename Io>
  static void fields(Io& io, typename Io::template Of<Ready>& body);
  // Indices of paths that either side could not bring up; never all of them.
  std::vector<std::uint8_t> down{};
};
struct Refuse {
  static constexpr MessageType kType = MessageType::Refuse;
  template <typename Io>
  static void fields(Io& io, typename Io::template Of<Refuse>& body);
  Errc reason = Errc::Protocol;
  std::string text;
};
struct Open {
  static constexpr MessageType kType = MessageType::Open;
  template <typename Io>
  static void fields(Io& io, typename Io::template Of<Open>& body);
  Id128 listener{};
  std::uint32_t channel = 0;  // index in the link, chosen by the connector
  std::uint32_t life = 0;     // how often the index was used before; generations start from it
  // The connector's credit ring: a row of 32 or 64 bytes for each slot.
  std::uint64_t credits_address = 0;
  std::vector<std::uint32_t> credits_rkey;  // one for each path
};
struct Opened {
  static constexpr MessageType kType = MessageType::Opened;
  template <typename Io>
  static void fields(Io& io, typename Io::template Of<Opened>& body);
  std::uint32_t channel = 0;
  Errc result = Errc::Ok;
  std::uint64_t records_address = 0;        // the acceptor's records, 16 bytes for each slot
  std::vector<std::uint32_t> records_rkey;  // one for each path
};
struct Revoke {
  static constexpr MessageType kType = MessageType::Revoke;
  template <typename Io>
  static void fields(Io& io, typename Io::template Of<Revoke>& body);
  std::uint32_t channel = 0;
  std::uint64_t first_credit = 0, credit_count = 0;  // sequence numbers of the channel's credits
};
struct Revoked {
  static constexpr MessageType kType = MessageType::Revoked;
  template <typename Io>
  static void fields(Io& io, typename Io::template Of<Revoked>& body);
  std::uint32_t channel = 0;
  std::uint64_t first_credit = 0, credit_count = 0;
};
struct Close {
  static constexpr MessageType kType = MessageType::Close;
  template <typename Io>
  static void fields(Io& io, typename Io::template Of<Close>& body);
  std::uint32_t channel = 0;
  // The sender says how many messages it announced, the receiver how many credits it gave.
  std::uint64_t messages = 0;
};
struct Bye {
  static constexpr MessageType kType = MessageType::Bye;
  template <typename Io>
  static void fields(Io& io, typename Io::template Of<Bye>& body);
};
struct Fence {
  static constexpr MessageType kType = MessageType::Fence;
  template <typename Io>
  static void fields(Io& io, typename Io::template Of<Fence>& body);
  std::uint8_t path = 0;             // index in the link
  std::uint32_t epoch = 0;           // the path's epoch
  std::string cause;                 // for the peer's log line
  std::vector<std::uint64_t> taken;  // announcements taken by each queue pair; none by a connector
};
struct Reopen {
  static constexpr MessageType kType = MessageType::Reopen;
  template <typename Io>
  static void fields(Io& io, typename Io::template Of<Reopen>& body);
  std::uint8_t path = 0;
  std::uint32_t epoch = 0;     // the new epoch
  WirePath ends;               // the connector's queue pairs; rails and addresses as before
  std::vector<WireHop> via{};  // relayed: the last middle host, which the acceptor connects to
  std::string over{};          // relayed: names of all middle hosts, for log lines
};
struct Reopened {
  static constexpr MessageType kType = MessageType::Reopened;
  template <typename Io>
  static void fields(Io& io, typename Io::template Of<Reopened>& body);
  std::uint8_t path = 0;
  std::uint32_t epoch = 0;
  Errc result = Errc::Ok;
  std::string text{};            // the reason, for the connector's log line
  std::vector<WirePath> ends{};  // the acceptor's queue pairs; empty if the result is not Ok
  std::vector<WireHop> via{};    // relayed: the acceptor as the last middle host sees it
};
struct PathUp {
  static constexpr MessageType kType = MessageType::PathUp;
  template <typename Io>
  static void fields(Io& io, typename Io::template Of<PathUp>& body);
  std::uint8_t path = 0;
  std::uint32_t epoch = 0;
};
struct Acknowledge {
  static constexpr MessageType kType = MessageType::Acknowledge;
  template <typename Io>
  static void fields(Io& io, typename Io::template Of<Acknowledge>& body);
};
// Names a link and the attempt to resume it. Attempts count the connections that the connector has
// dialed for the link, so that a late connection is not believed. A Summon names the last attempt
// that the acceptor knows of.
struct LinkClaim {
  Id128 connector_context{}, acceptor_context{};
  std::uint32_t attempt = 0;
};
struct Resume : LinkClaim {
  static constexpr MessageType kType = MessageType::Resume;
  template <typename Io>
  static void fields(Io& io, typename Io::template Of<Resume>& body);
};
struct Resumed {
  static constexpr MessageType kType = MessageType::Resumed;
  template <typename Io>
  static void fields(Io& io, typename Io::template Of<Resumed>& body);
};
struct Summon : LinkClaim {
  static constexpr MessageType kType = MessageType::Summon;
  template <typename Io>
  static void fields(Io& io, typename Io::template Of<Summon>& body);
};
// Needs no other proof than both ids: only a process that was given the handle knows them.
struct Decline {
  static constexpr MessageType kType = MessageType::Decline;
  template <typename Io>
  static void fields(Io& io, typename Io::template Of<Decline>& body);
  Id128 acceptor_context{}, listener{};
  Errc reason = Errc::Protocol;
  std::string text;
};

using Bytes = std::vector<std::byte>;

// Makes a whole frame of a header and a body, which is a structure with a kType. Type and size come
// from the body, everything else from the header.
template <typename Body>
Bytes encode(FrameHeader header, const Body& body);

// Returns Protocol if the magic is wrong, the version (stored in *peer_version) is not ours and
// this is no DECLINE, the type is unknown, or the body exceeds kBodyBytesMax.
Result<FrameHeader> decode_header(const std::byte* bytes, std::size_t size,
                                  std::uint16_t* peer_version);

// Returns Protocol if the body is too short or too long, or a count or text is out of bounds.
template <typename Body>
Status decode(const std::byte* body, std::size_t size, Body* out);

template <typename Body>
bool decode_into(std::span<const std::byte> bytes, Body* body) {
  return decode(bytes.data(), bytes.size(), body).ok();
}

}  // namespace mesh::engine

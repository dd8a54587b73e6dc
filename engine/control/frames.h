#pragma once
// What control connections carry: fixed headers, bounded bodies, little-endian fields, no pointers
// and no padding on the wire. A link's messages are numbered; said again after a connection was
// lost they are known by their number (conversation.h). Thread: any (values). Encoding never fails
// for values in range; decoding validates every length and count.

#include <mesh/policy.h>
#include <mesh/status.h>

#include "engine/message/id128.h"
#include "src/base/socket.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace mesh::engine {

inline constexpr std::uint32_t kFrameMagic = 0x4d45534au;  // "MESJ" read little-endian
inline constexpr std::uint16_t kProtocolVersion = 7;
inline constexpr std::uint32_t kBodyBytesMax =
    16384;  // WELCOME with 8 paths of 33 queue pairs fits four times
inline constexpr std::size_t kFrameHeaderBytes =
    48;  // magic 4, version 2, type 2, length 4, epoch 4, sequence 8, link 16, acknowledged 8
inline constexpr std::uint32_t kTextBytesMax = 512;
inline constexpr std::uint32_t kRailsMax = 64;
inline constexpr std::uint32_t kRailAddressesMax = 8;
inline constexpr std::uint32_t kControlAddressesMax = 16;
inline constexpr std::uint32_t kHelloListenersMax = 16;

enum class MessageType : std::uint16_t {
  Hello = 1,  // connector: who I am, my rails, what I want
  Welcome,    // acceptor: its rails, the paths chosen, its queue pairs
  Attach,     // connector: its queue pairs
  Ready,      // acceptor: link is up
  Refuse,     // either: no, and why
  Open,       // connector: a channel for this listener
  Opened,     // acceptor: done, or why not
  Revoke,     // either: take back these credits / stop sending on this channel
  Revoked,    // the answer, after the last use has completed
  Close,      // either: my side of this channel is closed
  Bye,        // the link has no channels left; no more after this
  Fence,      // either: my queue pairs of this path are stopped, and this is what they took
  Reopen,     // connector: new queue pairs for a path that is down
  Reopened,   // acceptor: its own, which are ready; or why not
  PathUp,     // connector: the path carries data again
  // Number 0, of a connection and not of the link's conversation (conversation.h):
  Acknowledge,  // either: nothing to say but the header's word
  Resume,       // connector, first on a new connection: this link goes on here
  Resumed,      // acceptor: so it does
  Summon,       // acceptor, on a connection of its own: ours is lost, dial again
};
inline constexpr MessageType kMessageTypeLast = MessageType::Summon;
constexpr bool is_aside(MessageType type) noexcept {
  return type == MessageType::Acknowledge || type == MessageType::Resume ||
         type == MessageType::Resumed || type == MessageType::Summon;
}

struct FrameHeader {
  MessageType type = MessageType::Hello;
  std::uint32_t body_bytes = 0;
  std::uint32_t epoch = 0;
  std::uint64_t sequence =
      0;  // of this side's frames on the link, from 1; 0: not part of the conversation
  std::uint64_t acknowledged = 0;  // the peer's last one that was handled when this was first said
  Id128 link{};
};

struct WireAddress {
  std::array<std::uint8_t, 16> gid{};
  std::uint8_t prefix_len = 0;  // bits of the address family
  friend bool operator==(const WireAddress&, const WireAddress&) = default;
};

struct WireRail {
  std::vector<WireAddress> addresses;  // 1 to kRailAddressesMax, the preferred first
  std::uint8_t ethernet = 1;
  std::uint8_t port = 1;
  std::uint8_t mtu = 0;  // ibv_mtu
  std::uint16_t lid = 0;
  std::uint32_t speed_mbps = 0;
  std::string name;  // for log lines, up to 64 bytes
};

// Queue pairs of one path: [0] is express, the others bulk.
struct WirePath {
  std::uint8_t connector_rail = 0;     // index into the connector's rails
  std::uint8_t connector_address = 0;  // index into that rail's addresses
  std::uint8_t acceptor_rail = 0;
  std::uint8_t acceptor_address = 0;
  std::uint8_t mtu = 0;            // min of both, ibv_mtu
  std::vector<std::uint32_t> qpn;  // 1 + qps, of the sender of the message
  std::uint32_t psn =
      0;  // the sender's first packet number, same for all its queue pairs on the path
  std::uint64_t counters_address =
      0;  // window counters, one 8-byte word per queue pair of the path; 0 from the acceptor
  std::uint32_t counters_rkey = 0;
};

struct Hello {
  static constexpr MessageType kType = MessageType::Hello;
  Id128 connector_context{}, acceptor_context{};
  std::string host;  // for log lines
  std::uint32_t qps = 0, rq_depth = 0, slots = 0;
  std::uint8_t preferred_rail = 0;
  std::vector<WireRail> rails;
  std::uint16_t control_port =
      0;  // where the acceptor finds us when it has lost the connection and we have not
  std::vector<SocketAddress> control_addresses;
  std::vector<Id128>
      listeners;  // that connects wait for; one of them must be open, or there are no queue pairs
};
struct Welcome {
  static constexpr MessageType kType = MessageType::Welcome;
  std::string host;
  std::uint32_t qps = 0, rq_depth = 0, slots = 0;  // min of both sides
  std::vector<WireRail> rails;
  std::vector<WirePath> paths;
};
struct Attach {
  static constexpr MessageType kType = MessageType::Attach;
  std::vector<WirePath> paths;
  std::vector<std::uint8_t> down{};  // indices of paths that the connector could not bring up
};
struct Ready {
  static constexpr MessageType kType = MessageType::Ready;
  std::vector<std::uint8_t> down{};  // of paths that one of both could not bring up; never all
};
struct Refuse {
  static constexpr MessageType kType = MessageType::Refuse;
  Errc reason = Errc::Protocol;
  std::string text;
};
struct Open {
  static constexpr MessageType kType = MessageType::Open;
  Id128 listener{};
  std::uint32_t channel = 0;  // index in the link, chosen by the connector
  std::uint32_t life = 0;     // how often the index was used before; generations start from it
  std::uint64_t credits_address = 0;        // slots rows of 32 or 64 bytes at the connector
  std::vector<std::uint32_t> credits_rkey;  // per path
};
struct Opened {
  static constexpr MessageType kType = MessageType::Opened;
  std::uint32_t channel = 0;
  Errc result = Errc::Ok;
  std::uint64_t records_address = 0;        // slots records of 16 bytes at the acceptor
  std::vector<std::uint32_t> records_rkey;  // per path
};
struct Revoke {
  static constexpr MessageType kType = MessageType::Revoke;
  std::uint32_t channel = 0;
  std::uint64_t first_credit = 0, credit_count = 0;  // sequence numbers of the channel's credits
};
struct Revoked {
  static constexpr MessageType kType = MessageType::Revoked;
  std::uint32_t channel = 0;
  std::uint64_t first_credit = 0, credit_count = 0;
};
struct Close {
  static constexpr MessageType kType = MessageType::Close;
  std::uint32_t channel = 0;
  std::uint64_t messages = 0;  // sender: announced in all; receiver: credits given in all
};
struct Bye {
  static constexpr MessageType kType = MessageType::Bye;
};
struct Fence {
  static constexpr MessageType kType = MessageType::Fence;
  std::uint8_t path = 0;             // index in the link
  std::uint32_t epoch = 0;           // of the path
  std::string cause;                 // for the other side's log line
  std::vector<std::uint64_t> taken;  // announcements, by queue pair; the connector takes none
};
struct Reopen {
  static constexpr MessageType kType = MessageType::Reopen;
  std::uint8_t path = 0;
  std::uint32_t epoch = 0;  // the new one
  WirePath ends;            // the connector's queue pairs; rails and addresses as before
};
struct Reopened {
  static constexpr MessageType kType = MessageType::Reopened;
  std::uint8_t path = 0;
  std::uint32_t epoch = 0;
  Errc result = Errc::Ok;
  std::string text;            // why not, for the connector's log line
  std::vector<WirePath> ends;  // the acceptor's queue pairs; none where the result is not Ok
};
struct PathUp {
  static constexpr MessageType kType = MessageType::PathUp;
  std::uint8_t path = 0;
  std::uint32_t epoch = 0;
};
struct Acknowledge {
  static constexpr MessageType kType = MessageType::Acknowledge;
};
// Who means which link. Attempts count the connections that the connector has dialed for it: a late
// one is not believed.
struct LinkClaim {
  Id128 connector_context{}, acceptor_context{};
  std::uint32_t attempt = 0;
};
struct Resume : LinkClaim {
  static constexpr MessageType kType = MessageType::Resume;
};
struct Resumed {
  static constexpr MessageType kType = MessageType::Resumed;
};
struct Summon : LinkClaim {
  static constexpr MessageType kType = MessageType::Summon;
};  // attempt: the last one it knows of

using Bytes = std::vector<std::byte>;

// A whole frame, header and body. Link, epoch and numbers come from the header, type and size from
// the body, which is one of the structures above that have a type.
template <typename Body>
Bytes encode(FrameHeader header, const Body& body);

// Protocol: bad magic, another version (kept in *peer_version), unknown type or body over
// kBodyBytesMax.
Result<FrameHeader> decode_header(const std::byte* bytes, std::size_t size,
                                  std::uint16_t* peer_version);

// Protocol: too short, too long, counts or strings out of bounds. Trailing bytes are an error.
template <typename Body>
Status decode(const std::byte* body, std::size_t size, Body* out);

template <typename Body>
bool decode_into(std::span<const std::byte> bytes, Body* body) {
  return decode(bytes.data(), bytes.size(), body).ok();
}

}  // namespace mesh::engine

#pragma once
// The frames that control connections carry: a header of fixed size and a bounded body, with
// little-endian fields, and neither pointers nor padding. Each frame is one structure here (those
// of relays are in relay_frames.h): what it is, its fields, and their layout. The frames of a link
// are numbered. A frame that is repeated after a connection was lost is recognised by its number
// (conversation.h). Encoding never fails for values in range; decoding validates every length and
// count. Thread: any (values). Bound: kBodyBytesMax.

#include <mesh/policy.h>
#include <mesh/status.h>

#include "engine/control/frame_codec.h"
#include "engine/control/wire_cables.h"
#include "engine/control/wire_values.h"
#include "src/base/timeouts.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mesh::engine {

inline constexpr std::uint32_t kFrameMagic = 0x4d45534au;  // "MESJ" read little-endian
inline constexpr std::uint16_t kProtocolVersion = 26;
inline constexpr std::uint32_t kHelloListenersMax = 16;
inline constexpr std::uint32_t kMeetMax = 64;      // pairs of rails that meet
inline constexpr std::uint32_t kKeyRunsMax = 128;  // in one frame

enum class MessageType : std::uint16_t {
  Hello = 1,
  Welcome,
  Attach,
  Ready,
  Refuse,
  Open,
  Opened,
  Revoke,
  Revoked,
  Close,
  Bye,
  Fence,
  Reopen,
  Reopened,
  PathUp,
  Acknowledge,
  Resume,
  Resumed,
  Summon,
  Decline,
  // Frames of relays.
  AskPeers,
  PeersAre,
  Chain,
  Chained,
  Join,
  Joined,
  Cut,
  // Frames of links again.
  Widen,
  Widened,
  AskCables,
  CablesAre,
  CardKeys,
  PortUp,
  End,  // no frame: the number behind the last one
};
static_assert(static_cast<int>(MessageType::Decline) == 20);
constexpr bool is_of_relays(MessageType type) noexcept {
  return type >= MessageType::AskPeers && type <= MessageType::Cut;
}

// The side of a link that sends the frame.
enum class By : std::uint8_t { Connector, Acceptor, Either };
// When a link takes the frame. Frames of the link's conversation are numbered: all but Aside,
// Relay, and First without HELLO, which belong to a connection and have number 0.
enum class When : std::uint8_t {
  Shake,   // while it is the next step of the handshake
  Up,      // from the end of the handshake on
  Always,  // at any time
  Aside,   // at any time
  First,   // never: it comes first on a new connection
  Relay,   // never: it comes on a connection of its own
};
struct FrameKind {
  MessageType type;
  std::string_view name;  // as log lines and pages have it
  By by;
  When when;
};

// The connector names itself, its rails and its wishes.
struct Hello {
  static constexpr FrameKind kKind{MessageType::Hello, "HELLO", By::Connector, When::First};
  Id128 connector_context{}, acceptor_context{};
  std::string host;           // for log lines
  std::uint64_t host_id = 0;  // of the provider; 0: nothing tells it
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
  WireProof proof{};
  static void fields(auto& io, auto& body) {
    io.id(body.connector_context);
    io.id(body.acceptor_context);
    hosts_fields(io, body);
    asked_fields(io, body.asked);
    io.require(body.asked.rail < body.rails.size());
    io.u16(body.control_port);
    addresses_fields(io, body.control_addresses);
    io.list(body.listeners, {1, kHelloListenersMax}, [&io](auto& listener) { io.id(listener); });
    io.u8(body.traffic_class);
    io.u8(body.service_level, {0, kServiceLevelMax});
    io.require(body.control_port != 0);
    io.text(body.site, kSiteBytesMax);
    io.u32(body.site_rq_depth, {16, kDepthMax});
    io.require(std::has_single_bit(body.site_rq_depth));
    io.id(body.ticket);
    io.u8(body.both_ways, {0, 1});
    io.u32(body.half_qps, {1, kQpsMax});
    proof_fields(io, body.proof);
    io.require(body.proof.places.empty() || body.proof.places.size() == body.rails.size());
  }
};
// The acceptor answers with its rails, the chosen paths and its queue pairs.
struct Welcome {
  static constexpr FrameKind kKind{MessageType::Welcome, "WELCOME", By::Acceptor, When::Shake};
  std::string host;
  std::uint64_t host_id = 0;
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
  // The number of paths over other hosts: the last standby paths, or the only paths. REOPEN names
  // their rails.
  std::uint8_t relayed = 0;
  Id128 ticket{};
  // The path over other hosts that carries beside `paths`, if there is one. Only the acceptor's
  // rail is fixed.
  std::vector<WirePath> beside{};
  std::vector<WireCables> cables{};  // of the connector's rails, if datagrams were sent
  // 1: behind `standby` comes a path over a cable that is not known yet. REOPEN names its rails.
  std::uint8_t by_proof = 0;
  static void fields(auto& io, auto& body) {
    hosts_fields(io, body);
    paths_fields(io, body.paths);
    for (const WirePath& path : body.paths)
      io.require(path.acceptor_rail < body.rails.size() &&
                 (path.qpn.size() == 1 || path.qpn.size() == 1 + body.qps));
    io.list(body.meet, {0, kMeetMax}, [&io](auto& pair) { ends_fields(io, pair); });
    for (const WirePath& pair : body.meet) io.require(pair.acceptor_rail < body.rails.size());
    io.list(body.standby, {0, kPathsMax - 1}, [&io](auto& pair) { ends_fields(io, pair); });
    io.require(body.standby.empty() || !body.paths.empty());
    io.u8(body.relayed, {0, kRelayPlacesMax});
    io.text(body.no_path, kTextBytesMax);
    io.require(body.meet.empty() == body.paths.empty());
    io.require(body.no_path.empty() != body.paths.empty());
    io.text(body.site, kSiteBytesMax);
    io.id(body.ticket);
    io.list(body.beside, {0, 1}, [&io](auto& pair) { ends_fields(io, pair); });
    io.require(body.beside.empty() || !body.paths.empty());
    cables_fields(io, body.cables);
    io.u8(body.by_proof, {0, 1});
    io.require(body.by_proof == 0 || !body.paths.empty());
    io.require(body.paths.size() + body.standby.size() + body.by_proof + body.relayed +
                   body.beside.size() <=
               kPathsMax);
  }
};
// The connector sends its queue pairs.
struct Attach {
  static constexpr FrameKind kKind{MessageType::Attach, "ATTACH", By::Connector, When::Shake};
  std::vector<WirePath> paths;
  std::vector<std::uint8_t> down{};  // indices of paths that the connector could not bring up
  // The connection's round trip, as the connector measured it from HELLO to WELCOME. Used between
  // sites.
  std::uint32_t round_trip_us = 0;
  static void fields(auto& io, auto& body) {
    paths_fields(io, body.paths);
    down_fields(io, body.down);
    io.u32(body.round_trip_us, {0, kRoundTripMaxUs});
  }
};
// The acceptor says that the link is up.
struct Ready {
  static constexpr FrameKind kKind{MessageType::Ready, "READY", By::Acceptor, When::Shake};
  // Indices of paths that either side could not bring up. All of them, if the only card has left.
  std::vector<std::uint8_t> down{};
  static void fields(auto& io, auto& body) { down_fields(io, body.down); }
};
// A side refuses, with the reason.
struct Refuse {
  static constexpr FrameKind kKind{MessageType::Refuse, "REFUSE", By::Either, When::Always};
  Errc reason = Errc::Protocol;
  std::string text;
  static void fields(auto& io, auto& body) {
    io.errc(body.reason);
    io.require(body.reason != Errc::Ok);
    io.text(body.text, kTextBytesMax);
  }
};
// The connector asks for a channel to a listener.
struct Open {
  static constexpr FrameKind kKind{MessageType::Open, "OPEN", By::Connector, When::Up};
  Id128 listener{};
  std::uint32_t channel = 0;  // index in the link, chosen by the connector
  std::uint32_t life = 0;     // how often the index was used before; generations start from it
  // The connector's CTS FIFO: an entry of 32 or 64 bytes for each slot.
  std::uint64_t credits_address = 0;
  std::vector<std::uint32_t> credits_rkey;  // of LinkKeys
  static void fields(auto& io, auto& body) {
    io.id(body.listener);
    io.u32(body.channel, {0, kChannelsMax - 1});
    io.u32(body.life);
    io.u64(body.credits_address);
    io.list(body.credits_rkey, {0, kLinkKeysMax}, [&io](auto& rkey) { io.u32(rkey); });
  }
};
// The acceptor has opened it, or tells why not.
struct Opened {
  static constexpr FrameKind kKind{MessageType::Opened, "OPENED", By::Acceptor, When::Up};
  std::uint32_t channel = 0;
  Errc result = Errc::Ok;
  std::uint64_t records_address = 0;        // the acceptor's records, 16 bytes for each slot
  std::vector<std::uint32_t> records_rkey;  // of LinkKeys
  static void fields(auto& io, auto& body) {
    io.u32(body.channel, {0, kChannelsMax - 1});
    io.errc(body.result);
    io.u64(body.records_address);
    io.list(body.records_rkey, {0, kLinkKeysMax}, [&io](auto& rkey) { io.u32(rkey); });
  }
};
// A side takes back credits, or asks its peer to stop sending on a channel.
struct Revoke {
  static constexpr FrameKind kKind{MessageType::Revoke, "REVOKE", By::Either, When::Up};
  std::uint32_t channel = 0;
  std::uint64_t first_credit = 0, credit_count = 0;  // sequence numbers of the channel's credits
  static void fields(auto& io, auto& body) { credit_range_fields(io, body); }
};
// The answer to REVOKE, after the last use has completed.
struct Revoked {
  static constexpr FrameKind kKind{MessageType::Revoked, "REVOKED", By::Either, When::Up};
  std::uint32_t channel = 0;
  std::uint64_t first_credit = 0, credit_count = 0;
  static void fields(auto& io, auto& body) { credit_range_fields(io, body); }
};
// A side has closed its side of a channel.
struct Close {
  static constexpr FrameKind kKind{MessageType::Close, "CLOSE", By::Either, When::Up};
  std::uint32_t channel = 0;
  // The sender says how many messages it announced, the receiver how many credits it gave.
  std::uint64_t messages = 0;
  static void fields(auto& io, auto& body) {
    io.u32(body.channel, {0, kChannelsMax - 1});
    io.u64(body.messages);
  }
};
// The link has no channels left; nothing follows.
struct Bye {
  static constexpr FrameKind kKind{MessageType::Bye, "BYE", By::Either, When::Up};
  static void fields(auto& /*io*/, auto& /*body*/) {}
};
// A side has left a path. If its device has stopped the queue pairs, it tells what they took; else
// another FENCE follows when that is so.
struct Fence {
  static constexpr FrameKind kKind{MessageType::Fence, "FENCE", By::Either, When::Up};
  std::uint8_t path = 0;             // index in the link
  std::uint32_t epoch = 0;           // the path's epoch
  std::string cause;                 // for the peer's log line
  std::uint8_t stopped = 1;          // 1: the sender's queue pairs of it are in ERR and drained
  std::vector<std::uint64_t> taken;  // announcements taken by each queue pair of an acceptor that
                                     // has stopped; else none
  static void fields(auto& io, auto& body) {
    path_epoch_fields(io, body);
    io.text(body.cause, kTextBytesMax);
    io.u8(body.stopped, {0, 1});
    io.list(body.taken, {0, 1 + kQpsMax}, [&io](auto& count) { io.u64(count); });
  }
};
// The connector sends new queue pairs for a path that is down.
struct Reopen {
  static constexpr FrameKind kKind{MessageType::Reopen, "REOPEN", By::Connector, When::Up};
  std::uint8_t path = 0;
  std::uint32_t epoch = 0;  // the new epoch
  // The connector's queue pairs. Rails and addresses are as before, except those of a path over
  // other hosts or by proof, which are named here.
  WirePath ends;
  std::vector<WireHop> via{};  // relayed: the last middle host, which the acceptor connects to
  std::string over{};          // relayed: names of all middle hosts, for log lines
  static void fields(auto& io, auto& body) {
    path_epoch_fields(io, body);
    path_fields(io, body.ends);
    io.list(body.via, {0, 1}, [&io](auto& hop) { hop_fields(io, hop); });
    io.text(body.over, kTextBytesMax);
  }
};
// Parts of the two answers that tell the acceptor's queue pairs of a path, or why there are none.
void path_answer_fields(auto& io, auto& body) {
  path_epoch_fields(io, body);
  io.errc(body.result);
  io.text(body.text, kTextBytesMax);
  io.list(body.ends, {0, 1}, [&io](auto& each) { path_fields(io, each); });
  io.require((body.result == Errc::Ok) == (body.ends.size() == 1));
}
// The acceptor answers with its own, which are ready, or tells why not.
struct Reopened {
  static constexpr FrameKind kKind{MessageType::Reopened, "REOPENED", By::Acceptor, When::Up};
  std::uint8_t path = 0;
  std::uint32_t epoch = 0;
  Errc result = Errc::Ok;
  std::string text{};            // the reason, for the connector's log line
  std::vector<WirePath> ends{};  // the acceptor's queue pairs; empty if the result is not Ok
  std::vector<WireHop> via{};    // relayed: the acceptor as the last middle host sees it
  // The acceptor's rail, and how often its card was replaced: another number means other keys.
  std::uint8_t rail = 0;
  std::uint32_t card = 0;
  static void fields(auto& io, auto& body) {
    path_answer_fields(io, body);
    io.list(body.via, {0, 1}, [&io](auto& hop) { hop_fields(io, hop); });
    io.u8(body.rail, {0, kRailsMax - 1});
    io.u32(body.card);
  }
};
// The connector tells that the path carries data again.
struct PathUp {
  static constexpr FrameKind kKind{MessageType::PathUp, "PATH UP", By::Connector, When::Up};
  std::uint8_t path = 0;
  std::uint32_t epoch = 0;
  static void fields(auto& io, auto& body) { path_epoch_fields(io, body); }
};
// The connector sends the bulk queue pairs of a path that has had none, while the path is used.
struct Widen {
  static constexpr FrameKind kKind{MessageType::Widen, "WIDEN", By::Connector, When::Up};
  std::uint8_t path = 0;
  std::uint32_t epoch = 0;  // the path's; another one means that it was lost meanwhile
  WirePath ends;            // bulk queue pairs only
  static void fields(auto& io, auto& body) {
    path_epoch_fields(io, body);
    path_fields(io, body.ends);
  }
};
// The acceptor answers with its own, which are ready, or tells why not.
struct Widened {
  static constexpr FrameKind kKind{MessageType::Widened, "WIDENED", By::Acceptor, When::Up};
  std::uint8_t path = 0;
  std::uint32_t epoch = 0;
  Errc result = Errc::Ok;
  std::string text{};            // the reason, for the connector's log line
  std::vector<WirePath> ends{};  // as in REOPENED
  static void fields(auto& io, auto& body) { path_answer_fields(io, body); }
};
// A side wants to know anew where the cables lead. The connector says where its ports take
// datagrams now; without that, an acceptor asks the connector to say it.
struct AskCables {
  static constexpr FrameKind kKind{MessageType::AskCables, "ASK CABLES", By::Either, When::Up};
  WireProof proof{};
  std::uint64_t up = 0;  // bits: the connector's rails whose ports are up
  static void fields(auto& io, auto& body) {
    proof_fields(io, body.proof);
    io.u64(body.up);
  }
};
// The acceptor tells what datagrams have told.
struct CablesAre {
  static constexpr FrameKind kKind{MessageType::CablesAre, "CABLES ARE", By::Acceptor, When::Up};
  std::vector<WireCables> cables{};  // as in WELCOME
  static void fields(auto& io, auto& body) { cables_fields(io, body.cables); }
};
// A side sends an acknowledgement, which is in the header, and nothing else.
struct Acknowledge {
  static constexpr FrameKind kKind{MessageType::Acknowledge, "ACKNOWLEDGE", By::Either,
                                   When::Aside};
  static void fields(auto& /*io*/, auto& /*body*/) {}
};
// Names a link and the attempt to resume it. Attempts count the connections that the connector has
// dialed for the link, so that a late connection is not believed. A Summon names the last attempt
// that the acceptor knows of.
struct LinkClaim {
  Id128 connector_context{}, acceptor_context{};
  std::uint32_t attempt = 0;
  static void fields(auto& io, auto& body) {
    io.id(body.connector_context);
    io.id(body.acceptor_context);
    io.u32(body.attempt);
  }
};
// The keys of a side's memory on a rail whose card was replaced and whose paths are fenced.
struct CardKeys {
  static constexpr FrameKind kKind{MessageType::CardKeys, "CARD KEYS", By::Either, When::Up};
  std::uint8_t rail = 0;
  std::uint32_t behind = kChannelsMax;  // the next frame's first channel
  // Each key is that of the channels from `first` on, up to the next key's.
  struct Run {
    std::uint32_t first = 0, rkey = 0;
  };
  std::vector<Run> keys;
  static void fields(auto& io, auto& body) {
    io.u8(body.rail, {0, kRailsMax - 1});
    io.u32(body.behind, {1, kChannelsMax});
    io.list(body.keys, {1, kKeyRunsMax}, [&io](auto& run) {
      io.u32(run.first, {0, kChannelsMax - 1});
      io.u32(run.rkey);
    });
    io.require(body.keys.empty() || body.keys.back().first < body.behind);
    io.require(std::is_sorted(body.keys.begin(), body.keys.end(),
                              [](const Run& a, const Run& b) { return a.first < b.first; }));
  }
};
// A port of the acceptor is up, or has another address: the connector opens paths over it again.
struct PortUp {
  static constexpr FrameKind kKind{MessageType::PortUp, "PORT UP", By::Acceptor, When::Up};
  std::uint8_t rail = 0;  // the acceptor's
  static void fields(auto& io, auto& body) { io.u8(body.rail, {0, kRailsMax - 1}); }
};
// The connector continues a link on a new connection.
struct Resume : LinkClaim {
  static constexpr FrameKind kKind{MessageType::Resume, "RESUME", By::Connector, When::First};
};
// The acceptor confirms it.
struct Resumed {
  static constexpr FrameKind kKind{MessageType::Resumed, "RESUMED", By::Acceptor, When::First};
  static void fields(auto& /*io*/, auto& /*body*/) {}
};
// The acceptor, on a connection of its own, asks to be dialed again.
struct Summon : LinkClaim {
  static constexpr FrameKind kKind{MessageType::Summon, "SUMMON", By::Acceptor, When::First};
};
// The connector tells that one connect has failed, on its link or first on a connection. Every
// version from 8 on has this number and this layout for it. Needs no other proof than both ids:
// only a process that was given the handle knows them.
struct Decline {
  static constexpr FrameKind kKind{MessageType::Decline, "DECLINE", By::Connector, When::Up};
  Id128 acceptor_context{}, listener{};
  Errc reason = Errc::Protocol;
  std::string text;
  static void fields(auto& io, auto& body) {
    io.id(body.acceptor_context);
    io.id(body.listener);
    io.errc(body.reason);
    io.require(body.reason != Errc::Ok);
    io.text(body.text, kTextBytesMax);
  }
};

// All frames but those of relays, in any order. A frame is not complete until it stands here and a
// part of the link takes it (Link::hand_over).
template <typename... Frames>
struct FrameList {};
using LinkFrames =
    FrameList<Hello, Welcome, Attach, Ready, Refuse, Open, Opened, Revoke, Revoked, Close, Bye,
              Fence, Reopen, Reopened, PathUp, Acknowledge, Resume, Resumed, Summon, Decline, Widen,
              Widened, AskCables, CablesAre, CardKeys, PortUp>;

// Calls visit with an empty frame of that type, and returns what it returns. Returns false if the
// list has none.
template <typename... Frames, typename Visit>
bool visit_frame(FrameList<Frames...>, MessageType type, const Visit& visit) {
  bool result = false;
  const bool found [[maybe_unused]] =
      ((Frames::kKind.type == type && ((result = visit(Frames{})), true)) || ...);
  return result;
}
std::string_view frame_name(MessageType type) noexcept;  // "PATH UP"

}  // namespace mesh::engine

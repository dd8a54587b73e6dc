#include "engine/control/frames.h"

#include "engine/control/frame_fields.h"
#include "src/base/byte_order.h"
#include "src/base/timeouts.h"

#include <bit>
#include <span>

namespace mesh::engine {

namespace {

static_assert(2 + kTextBytesMax + 12 + 1 + kRailsMax * kWireRailBytesMax + 1 +
                      kPathsMax * kWirePathBytesMax + 1 + kMeetMax * kWireMeetBytes + 1 + 2 + 2 +
                      kSiteBytesMax + 16 + 1 <=
                  kBodyBytesMax,
              "the largest WELCOME fits");
static_assert(kTextBytesMax <= kPathsMax * kWirePathBytesMax,
              "so does one that says why there are no paths");
static_assert(2 * 16 + 2 + kTextBytesMax + 12 + 1 + kRailsMax * kWireRailBytesMax + 1 + 2 + 1 +
                      kControlAddressesMax * 18 + 1 + kHelloListenersMax * 16 + 2 + 2 + 2 +
                      kSiteBytesMax + 4 + 16 <=
                  kBodyBytesMax,
              "the largest HELLO fits");
static_assert(kPathsMax <= 255 && kRailsMax <= 255 && 1 + kQpsMax <= 255,
              "counts travel as one byte");

template <typename Io, typename Body>
void common_fields(Io& io, Body& body) {
  io.text(body.host, kTextBytesMax);
  io.u32(body.qps, {1, kQpsMax});
  io.u32(body.rq_depth, {1, kDepthMax});
  io.u32(body.slots, {1, kSlotsMax});
  io.require(std::has_single_bit(body.rq_depth) && std::has_single_bit(body.slots));
  io.list(body.rails, {1, kRailsMax}, [&io](auto& rail) { rail_fields(io, rail); });
}

template <typename Io, typename Paths>
void paths_fields(Io& io, Paths& paths) {
  io.list(paths, {0, kPathsMax}, [&io](auto& each) { path_fields(io, each); });
}

template <typename Io, typename Down>
void down_fields(Io& io, Down& down) {
  io.list(down, {0, kPathsMax}, [&io](auto& path) { io.u8(path, {0, kPathsMax - 1}); });
}

void asked_fields(Encoder& io, const AskedRails& asked) {
  io.u8(asked.rail);
  io.u8(asked.listened);
  io.u8(static_cast<std::uint8_t>(asked.wish));
}
void asked_fields(Decoder& io, AskedRails& asked) {
  std::uint8_t wish = 0;
  io.u8(asked.rail);
  io.u8(asked.listened);
  io.u8(wish, {0, static_cast<std::uint8_t>(RailsWish::All)});
  asked.wish = static_cast<RailsWish>(wish);
}

template <typename Io, typename Body>
void credit_range_fields(Io& io, Body& body) {
  io.u32(body.channel, {0, kChannelsMax - 1});
  io.u64(body.first_credit);
  io.u64(body.credit_count);
  io.require(body.credit_count <= UINT64_MAX - body.first_credit);
}

template <typename Io>
void claim_fields(Io& io, typename Io::template Of<LinkClaim>& body) {
  io.id(body.connector_context);
  io.id(body.acceptor_context);
  io.u32(body.attempt);
}

template <typename Io, typename Body>
void path_epoch_fields(Io& io, Body& body) {
  io.u8(body.path, {0, kPathsMax - 1});
  io.u32(body.epoch);
}

}  // namespace

template <typename Io>
void Hello::fields(Io& io, typename Io::template Of<Hello>& body) {
  io.id(body.connector_context);
  io.id(body.acceptor_context);
  common_fields(io, body);
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
}

template <typename Io>
void Welcome::fields(Io& io, typename Io::template Of<Welcome>& body) {
  common_fields(io, body);
  paths_fields(io, body.paths);
  for (const WirePath& path : body.paths)
    io.require(path.acceptor_rail < body.rails.size() && path.qpn.size() == 1 + body.qps);
  io.list(body.meet, {0, kMeetMax}, [&io](auto& pair) { ends_fields(io, pair); });
  for (const WirePath& pair : body.meet) io.require(pair.acceptor_rail < body.rails.size());
  io.list(body.standby, {0, kPathsMax - 1}, [&io](auto& pair) { ends_fields(io, pair); });
  io.require(body.standby.empty() || !body.paths.empty());
  io.list(body.relayed, {0, kPathsMax}, [&io](auto& pair) { ends_fields(io, pair); });
  io.require(body.paths.size() + body.standby.size() + body.relayed.size() <= kPathsMax);
  io.text(body.no_path, kTextBytesMax);
  io.require(body.meet.empty() == body.paths.empty());
  io.require(body.no_path.empty() != body.paths.empty());
  io.text(body.site, kSiteBytesMax);
  io.id(body.ticket);
  io.u8(body.beside, {0, 1});
  io.require(body.beside == 0 || (!body.paths.empty() && !body.relayed.empty()));
}

template <typename Io>
void Attach::fields(Io& io, typename Io::template Of<Attach>& body) {
  paths_fields(io, body.paths);
  down_fields(io, body.down);
  io.u32(body.round_trip_us, {0, kRoundTripMaxUs});
}

template <typename Io>
void Ready::fields(Io& io, typename Io::template Of<Ready>& body) {
  down_fields(io, body.down);
}

template <typename Io>
void Refuse::fields(Io& io, typename Io::template Of<Refuse>& body) {
  io.errc(body.reason);
  io.require(body.reason != Errc::Ok);
  io.text(body.text, kTextBytesMax);
}

template <typename Io>
void Open::fields(Io& io, typename Io::template Of<Open>& body) {
  io.id(body.listener);
  io.u32(body.channel, {0, kChannelsMax - 1});
  io.u32(body.life);
  io.u64(body.credits_address);
  io.list(body.credits_rkey, {0, kPathsMax}, [&io](auto& rkey) { io.u32(rkey); });
}

template <typename Io>
void Opened::fields(Io& io, typename Io::template Of<Opened>& body) {
  io.u32(body.channel, {0, kChannelsMax - 1});
  io.errc(body.result);
  io.u64(body.records_address);
  io.list(body.records_rkey, {0, kPathsMax}, [&io](auto& rkey) { io.u32(rkey); });
}

template <typename Io>
void Revoke::fields(Io& io, typename Io::template Of<Revoke>& body) {
  credit_range_fields(io, body);
}

template <typename Io>
void Revoked::fields(Io& io, typename Io::template Of<Revoked>& body) {
  credit_range_fields(io, body);
}

template <typename Io>
void Close::fields(Io& io, typename Io::template Of<Close>& body) {
  io.u32(body.channel, {0, kChannelsMax - 1});
  io.u64(body.messages);
}

template <typename Io>
void Bye::fields(Io&, typename Io::template Of<Bye>&) {}
template <typename Io>
void Acknowledge::fields(Io&, typename Io::template Of<Acknowledge>&) {}
template <typename Io>
void Resumed::fields(Io&, typename Io::template Of<Resumed>&) {}

template <typename Io>
void Resume::fields(Io& io, typename Io::template Of<Resume>& body) {
  claim_fields(io, body);
}

template <typename Io>
void Summon::fields(Io& io, typename Io::template Of<Summon>& body) {
  claim_fields(io, body);
}

template <typename Io>
void Decline::fields(Io& io, typename Io::template Of<Decline>& body) {
  io.id(body.acceptor_context);
  io.id(body.listener);
  io.errc(body.reason);
  io.require(body.reason != Errc::Ok);
  io.text(body.text, kTextBytesMax);
}

template <typename Io>
void Fence::fields(Io& io, typename Io::template Of<Fence>& body) {
  path_epoch_fields(io, body);
  io.text(body.cause, kTextBytesMax);
  io.list(body.taken, {0, 1 + kQpsMax}, [&io](auto& count) { io.u64(count); });
}

template <typename Io>
void Reopen::fields(Io& io, typename Io::template Of<Reopen>& body) {
  path_epoch_fields(io, body);
  path_fields(io, body.ends);
  io.list(body.via, {0, 1}, [&io](auto& hop) { hop_fields(io, hop); });
  io.text(body.over, kTextBytesMax);
}

template <typename Io>
void Reopened::fields(Io& io, typename Io::template Of<Reopened>& body) {
  path_epoch_fields(io, body);
  io.errc(body.result);
  io.text(body.text, kTextBytesMax);
  io.list(body.ends, {0, 1}, [&io](auto& each) { path_fields(io, each); });
  io.list(body.via, {0, 1}, [&io](auto& hop) { hop_fields(io, hop); });
  io.require((body.result == Errc::Ok) == (body.ends.size() == 1));
}

template <typename Io>
void PathUp::fields(Io& io, typename Io::template Of<PathUp>& body) {
  path_epoch_fields(io, body);
}

Result<FrameHeader> decode_header(const std::byte* bytes, std::size_t size,
                                  std::uint16_t* peer_version) {
  ByteReader reader{std::span(bytes, size)};
  if (peer_version != nullptr) *peer_version = 0;
  if (reader.get_u32() != kFrameMagic) return Errc::Protocol;
  const std::uint16_t version = reader.get_u16();
  if (peer_version != nullptr) *peer_version = version;
  const std::uint16_t type = reader.get_u16();
  // A header of another version is read no further, unless it is that of a DECLINE, the only frame
  // that is alike in all versions.
  if (version != kProtocolVersion && type != static_cast<std::uint16_t>(MessageType::Decline))
    return Errc::Protocol;
  FrameHeader header;
  header.body_bytes = reader.get_u32();
  header.epoch = reader.get_u32();
  header.sequence = reader.get_u64();
  reader.get_bytes(std::as_writable_bytes(std::span(header.link)));
  header.acknowledged = reader.get_u64();
  if (!reader.ok() || header.body_bytes > kBodyBytesMax) return Errc::Protocol;
  if (type < static_cast<std::uint16_t>(MessageType::Hello) ||
      type > static_cast<std::uint16_t>(kMessageTypeLast))
    return Errc::Protocol;
  header.type = static_cast<MessageType>(type);
  return header;
}

template Bytes encode(FrameHeader header, const Hello& body);
template Bytes encode(FrameHeader header, const Welcome& body);
template Bytes encode(FrameHeader header, const Attach& body);
template Bytes encode(FrameHeader header, const Ready& body);
template Bytes encode(FrameHeader header, const Refuse& body);
template Bytes encode(FrameHeader header, const Open& body);
template Bytes encode(FrameHeader header, const Opened& body);
template Bytes encode(FrameHeader header, const Revoke& body);
template Bytes encode(FrameHeader header, const Revoked& body);
template Bytes encode(FrameHeader header, const Close& body);
template Bytes encode(FrameHeader header, const Bye& body);
template Bytes encode(FrameHeader header, const Fence& body);
template Bytes encode(FrameHeader header, const Reopen& body);
template Bytes encode(FrameHeader header, const Reopened& body);
template Bytes encode(FrameHeader header, const PathUp& body);
template Bytes encode(FrameHeader header, const Acknowledge& body);
template Bytes encode(FrameHeader header, const Resume& body);
template Bytes encode(FrameHeader header, const Resumed& body);
template Bytes encode(FrameHeader header, const Summon& body);
template Bytes encode(FrameHeader header, const Decline& body);

template Status decode(const std::byte* body, std::size_t size, Hello* out);
template Status decode(const std::byte* body, std::size_t size, Welcome* out);
template Status decode(const std::byte* body, std::size_t size, Attach* out);
template Status decode(const std::byte* body, std::size_t size, Ready* out);
template Status decode(const std::byte* body, std::size_t size, Refuse* out);
template Status decode(const std::byte* body, std::size_t size, Open* out);
template Status decode(const std::byte* body, std::size_t size, Opened* out);
template Status decode(const std::byte* body, std::size_t size, Revoke* out);
template Status decode(const std::byte* body, std::size_t size, Revoked* out);
template Status decode(const std::byte* body, std::size_t size, Close* out);
template Status decode(const std::byte* body, std::size_t size, Bye* out);
template Status decode(const std::byte* body, std::size_t size, Fence* out);
template Status decode(const std::byte* body, std::size_t size, Reopen* out);
template Status decode(const std::byte* body, std::size_t size, Reopened* out);
template Status decode(const std::byte* body, std::size_t size, PathUp* out);
template Status decode(const std::byte* body, std::size_t size, Acknowledge* out);
template Status decode(const std::byte* body, std::size_t size, Resume* out);
template Status decode(const std::byte* body, std::size_t size, Resumed* out);
template Status decode(const std::byte* body, std::size_t size, Summon* out);
template Status decode(const std::byte* body, std::size_t size, Decline* out);

}  // namespace mesh::engine

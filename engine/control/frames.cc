#include "engine/control/frames.h"

#include "engine/control/relay_frames.h"
#include "src/base/byte_order.h"
#include "src/base/check.h"

#include <algorithm>
#include <span>

namespace mesh::engine {

static_assert(2 + kTextBytesMax + 20 + 1 + kRailsMax * kWireRailBytesMax + 1 +
                      kPathsMax * kWirePathBytesMax + 1 + kMeetMax * kWireMeetBytes + 1 + 2 + 2 +
                      kSiteBytesMax + 16 + 1 + kWireCablesBytesMax + 1 <=
                  kBodyBytesMax,
              "the largest WELCOME fits");
static_assert(kTextBytesMax <= kPathsMax * kWirePathBytesMax,
              "so does one that says why there are no paths");
static_assert(2 * 16 + 2 + kTextBytesMax + 20 + 1 + kRailsMax * kWireRailBytesMax + 1 + 2 + 1 +
                      kControlAddressesMax * 18 + 1 + kHelloListenersMax * 16 + 2 + 2 + 2 +
                      kSiteBytesMax + 4 + 16 + 1 + 4 + kWireProofBytesMax <=
                  kBodyBytesMax,
              "the largest HELLO fits");
static_assert(16 + 2 + kTextBytesMax + 2 + 1 + kControlAddressesMax * 18 + 1 +
                      kRailsMax * kWireRailBytesMax + 3 + kWireCablesBytesMax <=
                  kBodyBytesMax,
              "the largest host fits");
static_assert(8 + 1 + 2 + kTextBytesMax + 1 + 2 * kWireHopBytesMax <= kBodyBytesMax,
              "the largest CHAINED fits");
static_assert(kPathsMax <= 255 && kRailsMax <= 255 && 1 + kQpsMax <= 255,
              "counts travel as one byte");

std::string_view frame_name(MessageType type) noexcept {
  std::string_view name = "no known type";
  const auto take_name = [&name](const auto& frame) {
    name = frame.kKind.name;
    return true;
  };
  if (!visit_frame(LinkFrames{}, type, take_name)) visit_frame(RelayFrames{}, type, take_name);
  return name;
}

Bytes whole_frame(FrameHeader header, std::span<const std::byte> body) {
  DCHECK(body.size() <= kBodyBytesMax);
  header.body_bytes = static_cast<std::uint32_t>(body.size());
  Bytes frame(kFrameHeaderBytes + body.size());
  ByteWriter writer(std::span<std::byte>(frame).first(kFrameHeaderBytes));
  writer.put_u32(kFrameMagic);
  writer.put_u16(kProtocolVersion);
  writer.put_u16(static_cast<std::uint16_t>(header.type));
  writer.put_u32(header.body_bytes);
  writer.put_u32(header.epoch);
  writer.put_u64(header.sequence);
  writer.put_bytes(std::as_bytes(std::span(header.link)));
  writer.put_u64(header.acknowledged);
  DCHECK(writer.ok() && writer.size() == kFrameHeaderBytes);
  std::copy(body.begin(), body.end(), frame.begin() + kFrameHeaderBytes);
  return frame;
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
  if (type == 0 || type >= static_cast<std::uint16_t>(MessageType::End)) return Errc::Protocol;
  header.type = static_cast<MessageType>(type);
  return header;
}

}  // namespace mesh::engine

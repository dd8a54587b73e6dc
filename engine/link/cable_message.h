#pragma once
// The contents of the datagrams that tell which rails are on one wire, and the places they go to.
// Both rails are named, that of the sender and the one that is meant. Thread: any (values). Bound:
// kBytes.

#include "engine/control/wire_cables.h"
#include "engine/message/id128.h"
#include "src/base/byte_order.h"
#include "src/base/check.h"
#include "src/verbs/cable_datagrams.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace mesh::engine {

struct CableMessage {
  static constexpr std::uint32_t kMagic = 0x4c424143;  // "CABL" read little-endian
  static constexpr std::size_t kBytes = 4 + 3 + 16;
  enum class Kind : std::uint8_t { Question = 1, Answer = 2 };

  Kind kind = Kind::Question;
  std::uint8_t connector_rail = 0, acceptor_rail = 0;
  Id128 nonce{};
};
static_assert(CableMessage::kBytes <= verbs::kCableDatagramBytesMax);

inline verbs::DatagramPlace place_of(const WirePlace& place) {
  return {.address = place.address, .ipv4 = place.ipv4, .port = place.port};
}
inline WirePlace wire_place_of(const verbs::DatagramPlace& place) {
  return {.address = place.address, .ipv4 = place.ipv4, .port = place.port};
}

inline std::array<std::byte, CableMessage::kBytes> bytes_of(const CableMessage& message) {
  std::array<std::byte, CableMessage::kBytes> bytes;
  ByteWriter writer(bytes);
  writer.put_u32(CableMessage::kMagic);
  writer.put_u8(static_cast<std::uint8_t>(message.kind));
  writer.put_u8(message.connector_rail);
  writer.put_u8(message.acceptor_rail);
  writer.put_bytes(std::as_bytes(std::span(message.nonce)));
  DCHECK(writer.ok() && writer.remaining() == 0);
  return bytes;
}

// Returns no value if the bytes are none of ours.
inline std::optional<CableMessage> cable_message_of(std::span<const std::byte> bytes) {
  if (bytes.size() != CableMessage::kBytes) return std::nullopt;
  ByteReader reader(bytes);
  CableMessage message;
  const bool ours = reader.get_u32() == CableMessage::kMagic;
  message.kind = static_cast<CableMessage::Kind>(reader.get_u8());
  message.connector_rail = reader.get_u8();
  message.acceptor_rail = reader.get_u8();
  reader.get_bytes(std::as_writable_bytes(std::span(message.nonce)));
  const bool known =
      message.kind == CableMessage::Kind::Question || message.kind == CableMessage::Kind::Answer;
  return ours && known ? std::optional(message) : std::nullopt;
}

}  // namespace mesh::engine

#pragma once
// Turns frames into bytes and back: a header of fixed size, and the fields of a body. Encoder and
// Decoder have the same calls, so that the layout of each body is written once (frames.h). The
// encoder does not judge values. The decoder remembers that something was out of range. Thread: any
// (values). Bound: kBodyBytesMax.

#include <mesh/status.h>

#include "engine/message/id128.h"
#include "src/base/byte_order.h"
#include "src/base/check.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace mesh::engine {

// The largest WELCOME fits: all rails with all addresses, all paths with all queue pairs.
inline constexpr std::uint32_t kBodyBytesMax = 17920;
// Bytes: magic 4, version 2, type 2, length 4, epoch 4, sequence 8, link 16, acknowledged 8.
inline constexpr std::size_t kFrameHeaderBytes = 48;

enum class MessageType : std::uint16_t;  // frames.h

struct FrameHeader {
  MessageType type{};
  std::uint32_t body_bytes = 0;
  std::uint32_t epoch = 0;
  // Number among this side's frames on the link, from 1. 0: no frame of the conversation.
  std::uint64_t sequence = 0;
  // Number of the peer's last frame that was handled when this one was first sent.
  std::uint64_t acknowledged = 0;
  Id128 link{};
};

struct Range {
  std::uint64_t min = 0, max = 0;
};

constexpr bool printable(char c) { return c >= ' ' && c <= '~'; }

class Encoder {
 public:
  explicit Encoder(std::span<std::byte> buffer) : writer_(buffer) {}

  void u8(std::uint8_t value, Range = {}) { writer_.put_u8(value); }
  void u16(std::uint16_t value) { writer_.put_u16(value); }
  void u32(std::uint32_t value, Range = {}) { writer_.put_u32(value); }
  void u64(std::uint64_t value) { writer_.put_u64(value); }
  template <std::size_t kBytes>
  void id(const std::array<std::uint8_t, kBytes>& value) {
    writer_.put_bytes(std::as_bytes(std::span(value)));
  }
  void errc(Errc value) { writer_.put_u8(static_cast<std::uint8_t>(value)); }
  template <typename Enum>
  void choice(Enum value, Enum /*last*/) {
    writer_.put_u8(static_cast<std::uint8_t>(value));
  }
  // Texts are for log lines only: a long text is cut, and a character that is not printable is
  // replaced. No text is refused.
  void text(const std::string& value, std::size_t bytes_max) {
    std::string shown = value.substr(0, bytes_max);
    std::replace_if(
        shown.begin(), shown.end(), [](char c) { return !printable(c); }, '?');
    writer_.put_string(shown);
  }
  template <typename T, typename Each>
  void list(const std::vector<T>& values, Range count, Each&& each) {
    DCHECK(count.min <= count.max && count.max <= UINT8_MAX);
    const std::size_t size = std::min<std::size_t>(values.size(), count.max);
    writer_.put_u8(static_cast<std::uint8_t>(size));
    for (std::size_t i = 0; i < size; ++i) each(values[i]);
  }
  void require(bool) {}

  std::size_t size() const {
    DCHECK(writer_.ok());
    return writer_.size();
  }

 private:
  ByteWriter writer_;
};

class Decoder {
 public:
  explicit Decoder(std::span<const std::byte> buffer) : reader_(buffer) {}

  void u8(std::uint8_t& value, Range range = {0, UINT8_MAX}) {
    value = static_cast<std::uint8_t>(within(reader_.get_u8(), range));
  }
  void u16(std::uint16_t& value) { value = reader_.get_u16(); }
  void u32(std::uint32_t& value, Range range = {0, UINT32_MAX}) {
    value = static_cast<std::uint32_t>(within(reader_.get_u32(), range));
  }
  void u64(std::uint64_t& value) { value = reader_.get_u64(); }
  template <std::size_t kBytes>
  void id(std::array<std::uint8_t, kBytes>& value) {
    reader_.get_bytes(std::as_writable_bytes(std::span(value)));
  }
  void errc(Errc& value) {
    value =
        static_cast<Errc>(within(reader_.get_u8(), {0, static_cast<std::uint8_t>(Errc::Internal)}));
    require(value != Errc::WouldBlock);  // it means "ask again", which is no verdict
  }
  template <typename Enum>
  void choice(Enum& value, Enum last) {
    value = static_cast<Enum>(within(reader_.get_u8(), {0, static_cast<std::uint8_t>(last)}));
  }
  // A peer's text reaches our log, so it may contain neither line breaks nor control characters.
  void text(std::string& value, std::size_t bytes_max) {
    value = reader_.get_string(bytes_max);
    require(std::all_of(value.begin(), value.end(), printable));
  }
  template <typename T, typename Each>
  void list(std::vector<T>& values, Range count, Each&& each) {
    DCHECK(count.min <= count.max && count.max <= UINT8_MAX);
    const std::size_t size = within(reader_.get_u8(), count);
    values.clear();
    for (std::size_t i = 0; i < size && reader_.ok(); ++i) each(values.emplace_back());
  }
  void require(bool condition) {
    if (!condition) reader_.fail();
  }

  bool complete() const { return reader_.ok() && reader_.remaining() == 0; }

 private:
  // Returns the value, or the smallest allowed value after a failure.
  std::uint64_t within(std::uint64_t value, Range range) {
    DCHECK(range.min <= range.max);
    if (value >= range.min && value <= range.max) return value;
    reader_.fail();
    return range.min;
  }

  ByteReader reader_;
};

using Bytes = std::vector<std::byte>;

// Makes a whole frame of a header, whose size becomes that of the body, and a body's bytes.
Bytes whole_frame(FrameHeader header, std::span<const std::byte> body);

// Makes a whole frame of a header and a body. Type and size come from the body, everything else
// from the header.
template <typename Body>
Bytes encode(FrameHeader header, const Body& body) {
  std::array<std::byte, kBodyBytesMax> room;
  Encoder io{room};
  Body::fields(io, body);
  header.type = Body::kKind.type;
  return whole_frame(header, std::span(room).first(io.size()));
}

// Returns Protocol if the magic is wrong, the version (stored in *peer_version) is not ours and
// this is no DECLINE, the type is unknown, or the body exceeds kBodyBytesMax.
Result<FrameHeader> decode_header(const std::byte* bytes, std::size_t size,
                                  std::uint16_t* peer_version);

// Returns Protocol if the body is too short or too long, or a count or text is out of bounds.
template <typename Body>
Status decode(const std::byte* bytes, std::size_t size, Body* out) {
  Decoder io{{bytes, size}};
  Body body;
  Body::fields(io, body);
  if (!io.complete()) return Errc::Protocol;
  *out = std::move(body);
  return {};
}

template <typename Body>
bool decode_into(std::span<const std::byte> bytes, Body* body) {
  return decode(bytes.data(), bytes.size(), body).ok();
}

}  // namespace mesh::engine

#pragma once
// Writes little-endian fields into byte buffers of control messages, and reads them back. Every
// access is bounded. The first one out of bounds makes the object fail for good, and failing reads
// return zero, so that callers check ok() once at the end. Thread: one owner. Bound: the span given
// at construction; strings carry a 16-bit length.

#include "src/base/check.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

namespace mesh {

class ByteWriter {
 public:
  explicit ByteWriter(std::span<std::byte> buffer) noexcept : buffer_(buffer) {}

  void put_u8(std::uint8_t value) noexcept { put_integer(value, 1); }
  void put_u16(std::uint16_t value) noexcept { put_integer(value, 2); }
  void put_u32(std::uint32_t value) noexcept { put_integer(value, 4); }
  void put_u64(std::uint64_t value) noexcept { put_integer(value, 8); }
  void put_bytes(std::span<const std::byte> bytes) noexcept {
    if (!take(bytes.size()) || bytes.empty()) return;
    std::memcpy(buffer_.data() + used_ - bytes.size(), bytes.data(), bytes.size());
  }
  void put_string(std::string_view text) noexcept {
    if (text.size() > UINT16_MAX) {
      ok_ = false;
      return;
    }
    put_u16(static_cast<std::uint16_t>(text.size()));
    put_bytes(std::as_bytes(std::span(text.data(), text.size())));
  }

  bool ok() const noexcept { return ok_; }
  std::size_t size() const noexcept { return used_; }
  std::size_t remaining() const noexcept { return buffer_.size() - used_; }

 private:
  bool take(std::size_t bytes) noexcept {
    ok_ = ok_ && bytes <= remaining();
    if (ok_) used_ += bytes;
    return ok_;
  }
  void put_integer(std::uint64_t value, std::size_t bytes) noexcept {
    DCHECK(bytes == sizeof value || value >> (8 * bytes) == 0);
    if (!take(bytes)) return;
    for (std::size_t i = 0; i < bytes; ++i)
      buffer_[used_ - bytes + i] = static_cast<std::byte>((value >> (8 * i)) & 0xffu);
  }

  std::span<std::byte> buffer_;
  std::size_t used_ = 0;
  bool ok_ = true;
};

class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> buffer) noexcept : buffer_(buffer) {}

  std::uint8_t get_u8() noexcept { return static_cast<std::uint8_t>(get_integer(1)); }
  std::uint16_t get_u16() noexcept { return static_cast<std::uint16_t>(get_integer(2)); }
  std::uint32_t get_u32() noexcept { return static_cast<std::uint32_t>(get_integer(4)); }
  std::uint64_t get_u64() noexcept { return get_integer(8); }
  // Fills all of `out`, or nothing of it if too little is left.
  void get_bytes(std::span<std::byte> out) noexcept {
    if (!take(out.size()) || out.empty()) return;
    std::memcpy(out.data(), buffer_.data() + used_ - out.size(), out.size());
  }
  // Fails when the string is longer than bytes_max.
  std::string get_string(std::size_t bytes_max) {
    const std::size_t bytes = get_u16();
    if (bytes > bytes_max) ok_ = false;
    if (!take(bytes)) return {};
    return {reinterpret_cast<const char*>(buffer_.data() + used_ - bytes), bytes};
  }

  void fail() noexcept { ok_ = false; }  // the caller found a value out of its range
  bool ok() const noexcept { return ok_; }
  std::size_t remaining() const noexcept { return buffer_.size() - used_; }

 private:
  bool take(std::size_t bytes) noexcept {
    ok_ = ok_ && bytes <= remaining();
    if (ok_) used_ += bytes;
    return ok_;
  }
  std::uint64_t get_integer(std::size_t bytes) noexcept {
    if (!take(bytes)) return 0;
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < bytes; ++i)
      value |= std::to_integer<std::uint64_t>(buffer_[used_ - bytes + i]) << (8 * i);
    return value;
  }

  std::span<const std::byte> buffer_;
  std::size_t used_ = 0;
  bool ok_ = true;
};

}  // namespace mesh

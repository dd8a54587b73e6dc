#pragma once
// A fuzzer's input as a stream of little-endian numbers, which are zero once it has run out.
// Thread: one. Bound: the bytes given.

#include "tests/standard.h"

namespace mesh::fuzz {

class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : bytes_(data, size) {}

  bool empty() const noexcept { return bytes_.empty(); }
  template <typename T>
  T take() noexcept {
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < sizeof(T) && !bytes_.empty(); ++i, bytes_ = bytes_.subspan(1)) {
      value |= std::uint64_t{bytes_[0]} << (8 * i);
    }
    return static_cast<T>(value);
  }
  std::uint8_t u8() noexcept { return take<std::uint8_t>(); }
  std::uint32_t below(std::uint32_t bound) noexcept { return bound == 0 ? 0 : u8() % bound; }
  std::span<const std::uint8_t> bytes(std::size_t most) noexcept {
    const std::span<const std::uint8_t> taken =
        bytes_.first(most < bytes_.size() ? most : bytes_.size());
    bytes_ = bytes_.subspan(taken.size());
    return taken;
  }
  std::span<const std::uint8_t> rest() noexcept { return bytes(bytes_.size()); }

 private:
  std::span<const std::uint8_t> bytes_;
};

}  // namespace mesh::fuzz

#pragma once
// Compares what somebody claims to know with what we know, in a time that does not tell how much of
// it was right. Thread: any (pure). Bound: 16 bytes.

#include <array>
#include <cstdint>
#include <cstring>

namespace mesh {

inline bool same_secret(const std::array<std::uint8_t, 16>& a,
                        const std::array<std::uint8_t, 16>& b) noexcept {
  std::array<std::uint64_t, 2> left{}, right{};
  std::memcpy(left.data(), a.data(), a.size());
  std::memcpy(right.data(), b.data(), b.size());
  std::uint64_t differs = (left[0] ^ right[0]) | (left[1] ^ right[1]);
  asm volatile("" : "+r"(differs));  // else the compiler might look at one word after the other
  return differs == 0;
}

}  // namespace mesh

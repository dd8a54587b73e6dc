#pragma once
// Unique names and secrets: 128 random bits from the kernel, and their comparison. Throws if the
// kernel has no random bits. For the control path only, because it makes a system call. Thread:
// any. Bound: 16 bytes.

#include <array>
#include <cstdint>
#include <cstring>

namespace mesh {

std::array<std::uint8_t, 16> random_id();

std::uint64_t random_u64();

// The first packet number of a queue pair, 24 bits.
inline std::uint32_t random_psn() { return static_cast<std::uint32_t>(random_u64() & 0xffffff); }

// Compares a claimed secret with ours, in a time that does not depend on how much of it is right.
inline bool same_secret(const std::array<std::uint8_t, 16>& a,
                        const std::array<std::uint8_t, 16>& b) noexcept {
  std::array<std::uint64_t, 2> left{}, right{};
  std::memcpy(left.data(), a.data(), a.size());
  std::memcpy(right.data(), b.data(), b.size());
  std::uint64_t differs = (left[0] ^ right[0]) | (left[1] ^ right[1]);
  asm volatile("" : "+r"(differs));  // keeps the compiler from comparing word after word
  return differs == 0;
}

}  // namespace mesh

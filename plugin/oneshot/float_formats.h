#pragma once
// Half and bfloat16 as bits, to float and back. Written so that compilers make vector code of
// them, without branches. Half is a type of aarch64's own. Thread: any (pure). Bound:
// none.

#include <bit>
#include <cstdint>

namespace mesh::oneshot {

// A result that is no number: quiet, positive, without a payload. Processors differ here.
inline constexpr std::uint16_t kHalfNan = 0x7e00;
inline constexpr std::uint16_t kBfloat16Nan = 0x7fc0;
inline constexpr std::uint32_t kFloatNan = 0x7fc00000;
inline constexpr std::uint64_t kDoubleNan = 0x7ff8000000000000;

#if defined(__aarch64__)
[[gnu::always_inline]] inline float float_of_half(std::uint16_t half) noexcept {
  return std::bit_cast<__fp16>(half);
}
[[gnu::always_inline]] inline std::uint16_t half_of_float(float value) noexcept {
  const auto bits = std::bit_cast<std::uint16_t>(static_cast<__fp16>(value));
  return value == value ? bits : kHalfNan;
}
#else
[[gnu::always_inline]] inline float float_of_half(std::uint16_t half) noexcept {
  const std::uint32_t sign = (half & 0x8000u) << 16;
  const std::uint32_t rest = (half & 0x7fffu) << 13;  // exponent and fraction in float's places
  // Float's exponent has a bias of 127 and half's one of 15. The product also makes normal numbers
  // of half's denormals.
  const std::uint32_t scaled = std::bit_cast<std::uint32_t>(std::bit_cast<float>(rest) * 0x1p112f);
  const std::uint32_t infinite = rest >= 0x0f800000u ? 0x7f800000u : 0u;
  return std::bit_cast<float>(scaled | infinite | sign);
}

[[gnu::always_inline]] inline std::uint16_t half_of_float(float value) noexcept {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  const std::uint32_t rest = bits & 0x7fffffffu;
  // Rounds to nearest, ties to even: a carry goes into the exponent, up to infinity.
  const std::uint32_t normal = (rest - (112u << 23) + 0xfffu + ((rest >> 13) & 1u)) >> 13;
  // The last place of 0.5 is that of half's denormals, so the processor rounds.
  const float shifted = std::bit_cast<float>(rest) + 0.5f;
  const std::uint32_t denormal =
      std::bit_cast<std::uint32_t>(shifted) - std::bit_cast<std::uint32_t>(0.5f);
  const std::uint32_t finite = rest < (113u << 23) ? denormal : normal;
  const std::uint32_t bounded = rest >= (143u << 23) ? 0x7c00u : finite;
  return static_cast<std::uint16_t>(rest > 0x7f800000u ? kHalfNan : bounded | sign);
}
#endif

[[gnu::always_inline]] inline float float_of_bfloat16(std::uint16_t bits) noexcept {
  return std::bit_cast<float>(std::uint32_t{bits} << 16);
}

[[gnu::always_inline]] inline std::uint16_t bfloat16_of_float(float value) noexcept {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  return static_cast<std::uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? kBfloat16Nan : rounded);
}

}  // namespace mesh::oneshot

#pragma once
// The elements of collectives: the 16-bit floating-point types of GPUs, which are computed as float
// and rounded to nearest, ties to even; and the reductions of every type. Thread: any (values).

#include "perf/collectives/collective.h"

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

namespace mesh::perf {

// IEEE 754 binary16.
struct Half {
  Half() = default;
  explicit Half(float value) noexcept : bits(rounded(std::bit_cast<std::uint32_t>(value))) {}
  explicit operator float() const noexcept {
    const std::uint32_t wide = (bits & 0x7fffu) << 13;
    // The product corrects the bias of the exponent, of subnormal numbers too. An exponent of ones
    // is infinity or not a number.
    const float magnitude = wide < 0x0f800000 ? std::bit_cast<float>(wide) * 0x1p112f
                                              : std::bit_cast<float>(wide | 0x7f800000);
    return std::copysign(magnitude, (bits & 0x8000) != 0 ? -1.0f : 1.0f);
  }
  bool operator==(const Half&) const = default;

  std::uint16_t bits = 0;

 private:
  static std::uint16_t rounded(std::uint32_t value) noexcept {
    const std::uint32_t sign = value >> 16 & 0x8000, magnitude = value & 0x7fffffff;
    std::uint32_t half = (magnitude + 0xfff + (magnitude >> 13 & 1) - (112u << 23)) >> 13;
    if (magnitude < 0x38800000)  // subnormal: a float from 0.5 up has the unit of these numbers
      half = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000;
    if (magnitude >= 0x477ff000) half = 0x7c00;  // from 65520 up the nearest is infinity
    if (magnitude > 0x7f800000) half = 0x7e00;
    return static_cast<std::uint16_t>(sign | half);
  }
};

// The upper half of a float.
struct Bfloat16 {
  Bfloat16() = default;
  explicit Bfloat16(float value) noexcept {
    const auto wide = std::bit_cast<std::uint32_t>(value);
    const bool number = (wide & 0x7fffffff) <= 0x7f800000;
    const std::uint32_t rounded = number ? wide + 0x7fff + (wide >> 16 & 1) : wide | 0x400000;
    bits = static_cast<std::uint16_t>(rounded >> 16);
  }
  explicit operator float() const noexcept {
    return std::bit_cast<float>(std::uint32_t{bits} << 16);
  }
  bool operator==(const Bfloat16&) const = default;

  std::uint16_t bits = 0;
};

// The type in which elements are added and multiplied. Integers wrap, as on a GPU.
template <typename T>
using Wide = std::conditional_t<std::is_integral_v<T>, std::uint64_t,
                                std::conditional_t<std::is_floating_point_v<T>, T, float>>;

// The type in which elements are compared.
template <typename T>
using Ordered = std::conditional_t<std::is_arithmetic_v<T>, T, float>;

template <typename T>
void reduce(Reduction reduction, std::span<T> out, const T* a, const T* b) {
  const auto each = [&](auto combined) {
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = combined(a[i], b[i]);
  };
  using W = Wide<T>;
  using O = Ordered<T>;
  switch (reduction) {
    case Reduction::Sum:
      return each([](T x, T y) { return static_cast<T>(static_cast<W>(x) + static_cast<W>(y)); });
    case Reduction::Prod:
      return each([](T x, T y) { return static_cast<T>(static_cast<W>(x) * static_cast<W>(y)); });
    case Reduction::Min:
      return each([](T x, T y) { return static_cast<O>(y) < static_cast<O>(x) ? y : x; });
    case Reduction::Max:
      return each([](T x, T y) { return static_cast<O>(x) < static_cast<O>(y) ? y : x; });
  }
}

// Instantiates a class template for each type of element.
// clang-format off
// NOLINTBEGIN(bugprone-macro-parentheses): the argument is a template's name.
#define MESH_OF_EACH_ELEMENT(Class)                                                           \
  template class Class<std::uint8_t>; template class Class<std::int32_t>;                     \
  template class Class<std::int64_t>; template class Class<Half>;                             \
  template class Class<Bfloat16>; template class Class<float>; template class Class<double>;
// NOLINTEND(bugprone-macro-parentheses)
// clang-format on

}  // namespace mesh::perf

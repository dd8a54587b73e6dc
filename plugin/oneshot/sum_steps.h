#pragma once
// The three steps of a sum over the members of a group, for each type of element and each
// operation: plain loops, always inlined, so that the function around them decides the
// instructions. Thread: any (pure). Bound: a block of kBlockElements.

#include "plugin/oneshot/element.h"
#include "plugin/oneshot/float_formats.h"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace mesh::oneshot {

// Each element has the type in memory, the type in which it is computed, and the ways between.
template <typename T>
struct Integer {
  using Stored = T;
  using Computed = T;
  [[gnu::always_inline]] static T widen(T value) noexcept { return value; }
  [[gnu::always_inline]] static T narrow(T value) noexcept { return value; }
};
template <typename T, auto kNan>
struct Floating {
  using Stored = T;
  using Computed = T;
  [[gnu::always_inline]] static T widen(T value) noexcept { return value; }
  [[gnu::always_inline]] static T narrow(T value) noexcept {
    return value == value ? value : std::bit_cast<T>(kNan);
  }
};
struct HalfFloat {
  using Stored = std::uint16_t;
  using Computed = float;
  [[gnu::always_inline]] static float widen(std::uint16_t bits) noexcept {
    return float_of_half(bits);
  }
  [[gnu::always_inline]] static std::uint16_t narrow(float value) noexcept {
    return half_of_float(value);
  }
};
struct BrainFloat {
  using Stored = std::uint16_t;
  using Computed = float;
  [[gnu::always_inline]] static float widen(std::uint16_t bits) noexcept {
    return float_of_bfloat16(bits);
  }
  [[gnu::always_inline]] static std::uint16_t narrow(float value) noexcept {
    return bfloat16_of_float(value);
  }
};

// Integers wrap, which C++ defines for unsigned types alone.
template <typename T, typename Join>
[[gnu::always_inline]] inline T wrapping(T a, T b, Join join) noexcept {
  if constexpr (std::is_integral_v<T>) {
    // Small types would be computed in int.
    using Wide = std::conditional_t<sizeof(T) < 4, std::uint32_t, std::make_unsigned_t<T>>;
    return static_cast<T>(join(static_cast<Wide>(a), static_cast<Wide>(b)));
  } else {
    return join(a, b);
  }
}

template <Operation kOperation, typename T>
[[gnu::always_inline]] inline T joined(T a, T b) noexcept {
  if constexpr (kOperation == Operation::Sum)
    return wrapping(a, b, [](auto x, auto y) { return x + y; });
  if constexpr (kOperation == Operation::Product)
    return wrapping(a, b, [](auto x, auto y) { return x * y; });
  // The second comparison is true if b is no number.
  if constexpr (kOperation == Operation::Max) return a > b || b != b ? a : b;
  if constexpr (kOperation == Operation::Min) return a < b || b != b ? a : b;
}

template <typename E>
[[gnu::always_inline]] inline typename E::Computed loaded(const std::byte* from,
                                                          std::size_t index) noexcept {
  typename E::Stored value;
  std::memcpy(&value, from + index * sizeof(value), sizeof(value));
  return E::widen(value);
}

// The three steps for a block of at most kBlockElements. Nothing overlaps.
template <typename E, Operation kOperation>
[[gnu::always_inline]] inline void first_two(void* __restrict sums, const std::byte* __restrict a,
                                             const std::byte* __restrict b,
                                             std::size_t count) noexcept {
  auto* const to = static_cast<typename E::Computed*>(sums);
  for (std::size_t i = 0; i < count; ++i)
    to[i] = joined<kOperation>(loaded<E>(a, i), loaded<E>(b, i));
}
template <typename E, Operation kOperation>
[[gnu::always_inline]] inline void one_more(void* __restrict sums, const std::byte* __restrict b,
                                            std::size_t count) noexcept {
  auto* const to = static_cast<typename E::Computed*>(sums);
  for (std::size_t i = 0; i < count; ++i) to[i] = joined<kOperation>(to[i], loaded<E>(b, i));
}
template <typename E>
[[gnu::always_inline]] inline void last_step(std::byte* __restrict out, const void* __restrict sums,
                                             std::size_t count) noexcept {
  const auto* const from = static_cast<const typename E::Computed*>(sums);
  for (std::size_t i = 0; i < count; ++i) {
    const typename E::Stored value = E::narrow(from[i]);
    std::memcpy(out + i * sizeof(value), &value, sizeof(value));
  }
}

}  // namespace mesh::oneshot

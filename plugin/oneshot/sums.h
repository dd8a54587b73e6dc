#pragma once
// Reduces what the members of a group have sent. Every host computes equal bits, whatever its
// processor: inputs are taken in their order, floating point is rounded to nearest with denormals
// whatever the calling thread has set, and a result that is no number has one fixed pattern. Half
// and bfloat16 are computed in float and rounded once, at the end. Integers wrap. Max and min take
// the number if the other operand is none, and the later of +0 and -0. Thread: any (pure). Bound:
// kBlockElements of an accumulator on the stack.

#include "plugin/oneshot/element.h"

#include <cstddef>
#include <cstdint>
#include <span>

namespace mesh::oneshot {

inline constexpr std::size_t kBlockElements = 1024;

enum class Simd : std::uint8_t { Plain, Avx2 };  // Plain: what every processor of its kind has
Simd best_simd() noexcept;                       // of this processor

// Writes `count` reduced elements to `out`, which may be one of the inputs, but may not overlap one
// in another way. There are two inputs or more. No address needs an alignment.
void reduce(const Reduction& reduction, std::span<const std::byte* const> inputs, std::byte* out,
            std::size_t count) noexcept;

// As reduce(), with the instructions that a test wants. This processor must have them.
struct ReduceCall {
  Reduction reduction;
  std::span<const std::byte* const> inputs;
  std::byte* out = nullptr;
  std::size_t count = 0;
};
void reduce_with(Simd simd, const ReduceCall& call) noexcept;

}  // namespace mesh::oneshot

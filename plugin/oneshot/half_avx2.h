#pragma once
// Sums of half, eight at a time, with the processor's own conversions: the plain loops, as GCC 12
// compiles them, take five times as long. Thread: any (pure). Bound: a block.

#if defined(__x86_64__)

#include "plugin/oneshot/element.h"
#include "plugin/oneshot/float_formats.h"

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#define MESH_AVX2 gnu::target("avx2,f16c"), gnu::always_inline

namespace mesh::oneshot::half_avx2 {

inline constexpr std::size_t kLanes = 8;

[[MESH_AVX2]] inline __m256 loaded8(const std::byte* from) noexcept {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i_u*>(from)));
}
[[MESH_AVX2]] inline void store8(std::byte* out, __m256 value) noexcept {
  const __m256 nan = _mm256_castsi256_ps(_mm256_set1_epi32(static_cast<int>(kFloatNan)));
  const __m256 none = _mm256_cmp_ps(value, value, _CMP_UNORD_Q);
  const __m128i bits =
      _mm256_cvtps_ph(_mm256_blendv_ps(value, nan, none), _MM_FROUND_TO_NEAREST_INT);
  _mm_storeu_si128(reinterpret_cast<__m128i_u*>(out), bits);
}

template <Operation kOperation>
[[MESH_AVX2]] inline __m256 joined8(__m256 a, __m256 b) noexcept {
  if constexpr (kOperation == Operation::Sum) return _mm256_add_ps(a, b);
  if constexpr (kOperation == Operation::Product) return _mm256_mul_ps(a, b);
  const __m256 none = _mm256_cmp_ps(b, b, _CMP_UNORD_Q);
  constexpr int kWins = kOperation == Operation::Max ? _CMP_GT_OQ : _CMP_LT_OQ;
  return _mm256_blendv_ps(b, a, _mm256_or_ps(_mm256_cmp_ps(a, b, kWins), none));
}

// Each returns how many elements it has done: all but those that fill no vector.
template <Operation kOperation>
[[gnu::target("avx2,f16c")]] std::size_t first_two(float* sums, const std::byte* a,
                                                   const std::byte* b, std::size_t count) noexcept {
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    _mm256_storeu_ps(sums + i, joined8<kOperation>(loaded8(a + 2 * i), loaded8(b + 2 * i)));
  return i;
}
template <Operation kOperation>
[[gnu::target("avx2,f16c")]] std::size_t one_more(float* sums, const std::byte* b,
                                                  std::size_t count) noexcept {
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    _mm256_storeu_ps(sums + i, joined8<kOperation>(_mm256_loadu_ps(sums + i), loaded8(b + 2 * i)));
  return i;
}
[[gnu::target("avx2,f16c")]] inline std::size_t last_step(std::byte* out, const float* sums,
                                                          std::size_t count) noexcept {
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) store8(out + 2 * i, _mm256_loadu_ps(sums + i));
  return i;
}

}  // namespace mesh::oneshot::half_avx2

#undef MESH_AVX2

#endif

#include "plugin/oneshot/sums.h"

#include "plugin/oneshot/float_environment.h"
#include "plugin/oneshot/half_avx2.h"
#include "plugin/oneshot/sum_steps.h"
#include "src/base/check.h"

#include <algorithm>
#include <array>
#include <type_traits>

namespace mesh::oneshot {

namespace {

struct Steps {
  void (*first)(void* sums, const std::byte* a, const std::byte* b, std::size_t count) noexcept;
  void (*more)(void* sums, const std::byte* b, std::size_t count) noexcept;
  void (*last)(std::byte* out, const void* sums, std::size_t count) noexcept;
};
using StepTable = std::array<std::array<Steps, kOperations>, kElements>;

struct PlainCode {
  template <typename E, Operation kOperation>
  static void first(void* sums, const std::byte* a, const std::byte* b,
                    std::size_t count) noexcept {
    first_two<E, kOperation>(sums, a, b, count);
  }
  template <typename E, Operation kOperation>
  static void more(void* sums, const std::byte* b, std::size_t count) noexcept {
    one_more<E, kOperation>(sums, b, count);
  }
  template <typename E>
  static void last(std::byte* out, const void* sums, std::size_t count) noexcept {
    last_step<E>(out, sums, count);
  }
};

#if defined(__x86_64__)
template <typename E>
constexpr bool kIsHalf = std::is_same_v<E, HalfFloat>;

struct Avx2Code {
  template <typename E, Operation kOperation>
  [[gnu::target("avx2")]] static void first(void* sums, const std::byte* a, const std::byte* b,
                                            std::size_t count) noexcept {
    std::size_t done = 0;
    if constexpr (kIsHalf<E>)
      done = half_avx2::first_two<kOperation>(static_cast<float*>(sums), a, b, count);
    const std::size_t at = done * sizeof(typename E::Stored);
    first_two<E, kOperation>(static_cast<typename E::Computed*>(sums) + done, a + at, b + at,
                             count - done);
  }
  template <typename E, Operation kOperation>
  [[gnu::target("avx2")]] static void more(void* sums, const std::byte* b,
                                           std::size_t count) noexcept {
    std::size_t done = 0;
    if constexpr (kIsHalf<E>)
      done = half_avx2::one_more<kOperation>(static_cast<float*>(sums), b, count);
    one_more<E, kOperation>(static_cast<typename E::Computed*>(sums) + done,
                            b + done * sizeof(typename E::Stored), count - done);
  }
  template <typename E>
  [[gnu::target("avx2")]] static void last(std::byte* out, const void* sums,
                                           std::size_t count) noexcept {
    std::size_t done = 0;
    if constexpr (kIsHalf<E>)
      done = half_avx2::last_step(out, static_cast<const float*>(sums), count);
    last_step<E>(out + done * sizeof(typename E::Stored),
                 static_cast<const typename E::Computed*>(sums) + done, count - done);
  }
};
#else
using Avx2Code = PlainCode;
#endif

template <typename Code, typename E, Operation kOperation>
constexpr Steps steps() {
  return {&Code::template first<E, kOperation>, &Code::template more<E, kOperation>,
          &Code::template last<E>};
}
template <typename Code, typename E>
constexpr std::array<Steps, kOperations> steps_of() {
  return {steps<Code, E, Operation::Sum>(), steps<Code, E, Operation::Product>(),
          steps<Code, E, Operation::Max>(), steps<Code, E, Operation::Min>()};
}
// In the order of Element.
template <typename Code>
constexpr StepTable table_of() {
  return {steps_of<Code, Integer<std::int8_t>>(),
          steps_of<Code, Integer<std::uint8_t>>(),
          steps_of<Code, Integer<std::int32_t>>(),
          steps_of<Code, Integer<std::uint32_t>>(),
          steps_of<Code, Integer<std::int64_t>>(),
          steps_of<Code, Integer<std::uint64_t>>(),
          steps_of<Code, HalfFloat>(),
          steps_of<Code, Floating<float, kFloatNan>>(),
          steps_of<Code, Floating<double, kDoubleNan>>(),
          steps_of<Code, BrainFloat>()};
}
constexpr StepTable kPlain = table_of<PlainCode>();
constexpr StepTable kAvx2 = table_of<Avx2Code>();

}  // namespace

Simd best_simd() noexcept {
#if defined(__x86_64__)
  // Every processor with AVX2 has F16C, too.
  static const bool has_avx2 = __builtin_cpu_supports("avx2") != 0;
  return has_avx2 ? Simd::Avx2 : Simd::Plain;
#else
  return Simd::Plain;
#endif
}

void reduce_with(Simd simd, const ReduceCall& call) noexcept {
  CHECK(call.inputs.size() >= 2);
  const FloatEnvironment environment;
  const StepTable& table = simd == Simd::Avx2 ? kAvx2 : kPlain;
  const Steps& steps = table[static_cast<std::size_t>(call.reduction.element)]
                            [static_cast<std::size_t>(call.reduction.operation)];
  const std::size_t bytes = element_bytes(call.reduction.element);
  alignas(64) std::byte sums[kBlockElements * sizeof(double)];
  for (std::size_t begin = 0; begin < call.count; begin += kBlockElements) {
    const std::size_t count = std::min(kBlockElements, call.count - begin);
    const std::size_t at = begin * bytes;
    steps.first(sums, call.inputs[0] + at, call.inputs[1] + at, count);
    for (const std::byte* const input : call.inputs.subspan(2)) steps.more(sums, input + at, count);
    steps.last(call.out + at, sums, count);
  }
}

void reduce(const Reduction& reduction, std::span<const std::byte* const> inputs, std::byte* out,
            std::size_t count) noexcept {
  reduce_with(best_simd(), {reduction, inputs, out, count});
}

}  // namespace mesh::oneshot

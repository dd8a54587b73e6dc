#pragma once
// The reference of the tests of one-shot all-reduce: results element by element, without any trick.
// Half and bfloat16 are decoded and encoded by arithmetic on their definition. Thread: any (pure).

#include "plugin/oneshot/element.h"
#include "plugin/oneshot/plan.h"
#include "tests/standard.h"

namespace mesh::oneshot::testkit {

// A binary format with an implied leading one, of `fraction` bits and a bias of the exponent.
struct SmallFormat {
  int fraction = 0, exponent_bits = 0;
  std::uint16_t nan = 0;

  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  std::uint16_t infinity() const {
    return static_cast<std::uint16_t>(((1 << exponent_bits) - 1) << fraction);
  }
  std::uint16_t sign_bit() const {
    return static_cast<std::uint16_t>(1 << (exponent_bits + fraction));
  }

  double decode(std::uint16_t bits) const {
    const double sign = (bits & sign_bit()) != 0 ? -1.0 : 1.0;
    const int magnitude = bits & (sign_bit() - 1);
    const int exponent = magnitude >> fraction;
    const int rest = magnitude & ((1 << fraction) - 1);
    if (exponent == (1 << exponent_bits) - 1)
      return rest != 0 ? std::numeric_limits<double>::quiet_NaN()
                       : sign * std::numeric_limits<double>::infinity();
    if (exponent == 0) return sign * std::ldexp(rest, 1 - bias() - fraction);
    return sign * std::ldexp((1 << fraction) + rest, exponent - bias() - fraction);
  }
  std::uint16_t encode(double value) const {
    if (std::isnan(value)) return nan;
    const std::uint16_t sign = std::signbit(value) ? sign_bit() : std::uint16_t{0};
    const double size = std::fabs(value);
    if (std::isinf(size)) return static_cast<std::uint16_t>(sign | infinity());
    // Denormals, and zero, have the exponent of the smallest normal number.
    const int exponent = size == 0 ? 1 - bias() : std::max(std::ilogb(size), 1 - bias());
    const double steps = std::nearbyint(std::ldexp(size, fraction - exponent));
    const double magnitude = std::ldexp(exponent + bias() - 1, fraction) + steps;
    return static_cast<std::uint16_t>(sign |
                                      static_cast<std::uint16_t>(std::fmin(magnitude, infinity())));
  }
};
inline constexpr SmallFormat kHalf{.fraction = 10, .exponent_bits = 5, .nan = 0x7e00};
inline constexpr SmallFormat kBrain{.fraction = 7, .exponent_bits = 8, .nan = 0x7fc0};

template <typename T>
T join(Operation operation, T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    if (operation == Operation::Sum || operation == Operation::Product) {
      T result{};
      const bool sums = operation == Operation::Sum;
      // The built-ins wrap and tell of it.
      if (sums ? __builtin_add_overflow(a, b, &result) : __builtin_mul_overflow(a, b, &result))
        return result;
      return result;
    }
  } else {
    if (std::isnan(a)) return operation >= Operation::Max ? b : a;
    if (std::isnan(b)) return operation >= Operation::Max ? a : b;
    if (operation == Operation::Sum) return a + b;
    if (operation == Operation::Product) return a * b;
  }
  if (operation == Operation::Max) return a > b ? a : b;
  return a < b ? a : b;
}

template <typename T>
void reduce_as(Operation operation, std::span<const std::vector<std::byte>> inputs,
               std::vector<std::byte>& out) {
  for (std::size_t at = 0; at < out.size(); at += sizeof(T)) {
    T result{};
    for (std::size_t k = 0; k < inputs.size(); ++k) {
      T value;
      std::memcpy(&value, inputs[k].data() + at, sizeof(T));
      result = k == 0 ? value : join(operation, result, value);
    }
    if constexpr (std::is_floating_point_v<T>) {
      if (std::isnan(result)) result = std::numeric_limits<T>::quiet_NaN();
    }
    std::memcpy(out.data() + at, &result, sizeof(T));
  }
}

inline void reduce_small(const SmallFormat& format, Operation operation,
                         std::span<const std::vector<std::byte>> inputs,
                         std::vector<std::byte>& out) {
  for (std::size_t at = 0; at < out.size(); at += 2) {
    float result = 0;
    for (std::size_t k = 0; k < inputs.size(); ++k) {
      std::uint16_t bits = 0;
      std::memcpy(&bits, inputs[k].data() + at, 2);
      const auto value = static_cast<float>(format.decode(bits));
      result = k == 0 ? value : join(operation, result, value);
    }
    const std::uint16_t bits = format.encode(static_cast<double>(result));
    std::memcpy(out.data() + at, &bits, 2);
  }
}

// All inputs have one size, a multiple of the element's.
inline std::vector<std::byte> plain_reduce(const Reduction& reduction,
                                           std::span<const std::vector<std::byte>> inputs) {
  std::vector<std::byte> out(inputs[0].size());
  const Operation operation = reduction.operation;
  switch (reduction.element) {
    case Element::Int8: reduce_as<std::int8_t>(operation, inputs, out); break;
    case Element::Uint8: reduce_as<std::uint8_t>(operation, inputs, out); break;
    case Element::Int32: reduce_as<std::int32_t>(operation, inputs, out); break;
    case Element::Uint32: reduce_as<std::uint32_t>(operation, inputs, out); break;
    case Element::Int64: reduce_as<std::int64_t>(operation, inputs, out); break;
    case Element::Uint64: reduce_as<std::uint64_t>(operation, inputs, out); break;
    case Element::Half: reduce_small(kHalf, operation, inputs, out); break;
    case Element::Float: reduce_as<float>(operation, inputs, out); break;
    case Element::Double: reduce_as<double>(operation, inputs, out); break;
    case Element::Bfloat16: reduce_small(kBrain, operation, inputs, out); break;
  }
  return out;
}

// Returns what the steps make of the inputs: the first step's results are the second's inputs.
// `plans`: by rank.
inline std::vector<std::byte> reduce_in_steps(const Reduction& reduction,
                                              std::vector<std::vector<std::byte>> have,
                                              const std::vector<std::vector<PlanStep>>& plans) {
  for (std::size_t index = 0; index < plans[0].size(); ++index) {
    std::vector<std::vector<std::byte>> next;
    for (const std::vector<PlanStep>& plan : plans) {
      std::vector<std::vector<std::byte>> inputs;
      for (const std::size_t rank : plan[index].ranks) inputs.push_back(have[rank]);
      next.push_back(plain_reduce(reduction, inputs));
    }
    have = std::move(next);
  }
  return have[0];
}

}  // namespace mesh::oneshot::testkit

#pragma once
// The types and operations of one-shot all-reduce, in NCCL's numbering (ncclDataType_t and
// ncclRedOp_t). The module knows NCCL by these numbers only. Thread: any (values). Bound: none.

#include <array>
#include <cstddef>
#include <cstdint>

namespace mesh::oneshot {

enum class Element : std::uint8_t {
  Int8,
  Uint8,
  Int32,
  Uint32,
  Int64,
  Uint64,
  Half,
  Float,
  Double,
  Bfloat16,
};
inline constexpr std::size_t kElements = 10;  // NCCL's types above are floats of 8 bits

enum class Operation : std::uint8_t { Sum, Product, Max, Min };
inline constexpr std::size_t kOperations = 4;

constexpr std::size_t element_bytes(Element element) noexcept {
  constexpr std::array<std::uint8_t, kElements> kBytes{1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
  return kBytes[static_cast<std::size_t>(element)];
}

struct Reduction {
  Element element = Element::Float;
  Operation operation = Operation::Sum;

  friend bool operator==(const Reduction&, const Reduction&) noexcept = default;
};

}  // namespace mesh::oneshot

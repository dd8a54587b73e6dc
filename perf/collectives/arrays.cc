#include "perf/collectives/arrays.h"

#include "perf/collectives/element.h"

#include <cstdio>
#include <cstring>
#include <span>

namespace mesh::perf {
namespace {

// Returns an element that differs by place, rank and round. Every reduction of such elements by up
// to 256 ranks (16-bit floating-point types: 30) is exact, in any order: small whole numbers, and
// for products of floating-point types 1/2, 1 and 2, of which neighbours have opposite ones.
// Integers wrap equally everywhere.
template <typename T>
T value_at(Reduction reduction, std::size_t index, int rank, std::uint64_t round) {
  const std::uint64_t mixed = (index + 1) * 0x9e3779b97f4a7c15u +
                              static_cast<std::uint64_t>(rank) * 0xbf58476d1ce4e5b9u + round;
  const std::uint64_t value = (mixed ^ (mixed >> 29)) >> 16;
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(reduction == Reduction::Prod ? value | 1 : value & 0xffff);
  } else {
    using W = Wide<T>;
    constexpr std::uint64_t kMask = sizeof(T) == 2 ? 3 : 0xffff;
    const W power = rank % 2 == 0 ? W{2} : W{0.5};
    if (reduction != Reduction::Prod) return static_cast<T>(static_cast<W>(value & kMask));
    return static_cast<T>((value & 1) != 0 ? power : W{1});
  }
}

}  // namespace

template <typename T>
Arrays<T>::Arrays(const Team& team, const CollectiveOptions& options)
    : options_(options),
      rank_(team.rank()),
      world_(team.world()),
      blocks_(has_blocks(options.kind) ? static_cast<std::size_t>(world_) : 1),
      input_(options.bytes_max),
      output_(options.bytes_max) {}

template <typename T>
T* Arrays<T>::input() const {
  return reinterpret_cast<T*>((placement_ == Placement::InPlace ? output_ : input_).data());
}

template <typename T>
typename Arrays<T>::Span Arrays<T>::own_block(std::size_t count) const {
  const std::size_t begin = count * static_cast<std::size_t>(rank_);
  return {begin, begin + count};
}

template <typename T>
typename Arrays<T>::Span Arrays<T>::filled(std::size_t count) const {
  if (options_.kind == Kind::AllGather) return own_block(count);
  if (options_.kind == Kind::Broadcast && rank_ != options_.root) return {};
  return {0, count * blocks_};
}

template <typename T>
typename Arrays<T>::Span Arrays<T>::expected(std::size_t count) const {
  if (options_.kind == Kind::ReduceScatter) return own_block(count);
  if (options_.kind == Kind::Reduce && rank_ != options_.root) return {};
  return {0, count * blocks_};
}

template <typename T>
T Arrays<T>::expected_at(std::size_t index, std::size_t count, std::uint64_t round) const {
  const auto value = [&](int rank) { return value_at<T>(options_.reduction, index, rank, round); };
  if (options_.kind == Kind::AllGather) return value(static_cast<int>(index / count));
  if (options_.kind == Kind::Broadcast) return value(options_.root);
  T all = value(0);
  for (int rank = 1; rank < world_; ++rank) {
    const T one = value(rank);
    reduce(options_.reduction, std::span(&all, 1), &all, &one);
  }
  return all;
}

template <typename T>
std::size_t Arrays<T>::wrong_elements(std::size_t count, std::uint64_t round) const {
  const T* output = reinterpret_cast<const T*>(output_.data());
  const Span span = expected(count);
  std::size_t wrong = 0;
  for (std::size_t i = span.begin; i < span.end; ++i) {
    const T wanted = expected_at(i, count, round);
    if (output[i] == wanted) continue;
    if (wrong++ == 0) {
      std::fprintf(stderr, "mesh_perf: rank %d: element %zu is %g, not %g\n", rank_, i,
                   static_cast<double>(static_cast<Ordered<T>>(output[i])),
                   static_cast<double>(static_cast<Ordered<T>>(wanted)));
    }
  }
  return wrong;
}

template <typename T>
void Arrays<T>::fill(std::size_t count, std::uint64_t round) {
  std::memset(output_.data(), 0xff, size_of(count));
  T* to = input();
  const Span span = filled(count);
  for (std::size_t i = span.begin; i < span.end; ++i)
    to[i] = value_at<T>(options_.reduction, i, rank_, round);
}

MESH_OF_EACH_ELEMENT(Arrays)

}  // namespace mesh::perf

#pragma once
// Input and output of a collective that is really computed on the CPU. Both arrays have the size of
// the larger one, and the smaller one's elements lie at its rank's block, where NCCL has them in
// place. Every element of the result is compared with the exact value. Thread: one owner.

#include "perf/collectives/collective.h"
#include "perf/driver/buffer.h"

#include <cstddef>
#include <cstdint>

namespace mesh::perf {

template <typename T>
class Arrays {
 public:
  Arrays(const Team& team, const CollectiveOptions& options);

  std::size_t blocks() const noexcept { return blocks_; }
  std::size_t count_for(std::size_t bytes) const { return bytes / sizeof(T) / blocks_; }
  std::size_t size_of(std::size_t count) const { return count * sizeof(T) * blocks_; }
  void set_placement(Placement placement) noexcept { placement_ = placement; }
  T* input() const;
  T* output() const { return reinterpret_cast<T*>(output_.data()); }

  void fill(std::size_t count, std::uint64_t round);
  std::size_t wrong_elements(std::size_t count, std::uint64_t round) const;

 private:
  // Elements [begin, end) of an array.
  struct Span {
    std::size_t begin = 0, end = 0;
  };
  Span own_block(std::size_t count) const;
  Span filled(std::size_t count) const;    // of the input
  Span expected(std::size_t count) const;  // of the output
  T expected_at(std::size_t index, std::size_t count, std::uint64_t round) const;

  const CollectiveOptions options_;
  const int rank_, world_;
  const std::size_t blocks_;
  driver::Buffer input_, output_;
  Placement placement_ = Placement::OutOfPlace;
};

}  // namespace mesh::perf

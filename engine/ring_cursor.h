#pragma once
// Where the next credit of a channel goes or comes from: its place in the ring, its generation and the immediate that will
// announce it, all moved on by one step together, so that no message computes them.
// Thread: loop. Bound: the ring's size, a power of two.

#include "engine/wire.h"

#include <bit>
#include <cstdint>

namespace mesh::engine {

class RingCursor {
 public:
  struct Shape {
    std::uint32_t slots = 0, row_bytes = 0, channel = 0;
  };
  explicit RingCursor(const Shape& shape) : shape_(shape) { start(1); }

  // Of the channel's life: see generation_base(). At the first slot again.
  void start(std::uint32_t generation) noexcept {
    generation_ = generation;
    rewind();
  }

  std::uint32_t slot() const noexcept { return slot_; }
  std::uint32_t row_bytes() const noexcept { return shape_.row_bytes; }
  std::uint64_t offset() const noexcept { return offset_; }  // of the row
  std::uint32_t generation() const noexcept { return generation_; }
  std::uint32_t imm() const noexcept { return imm_; }                         // without the record bit
  std::uint32_t slots_left() const noexcept { return shape_.slots - slot_; }  // to the end of the ring

  void step() noexcept {
    ++slot_;
    offset_ += shape_.row_bytes;
    imm_ += 1u << kGenerationBits;
    if (slot_ == shape_.slots) [[unlikely]] {
      ++generation_;
      rewind();
    }
  }

 private:
  void rewind() noexcept {
    slot_ = 0;
    offset_ = 0;
    imm_ = pack({.record = false, .channel = shape_.channel, .slot = 0, .generation = generation_});
  }

  std::uint64_t offset_ = 0;
  std::uint32_t slot_ = 0, generation_ = 0, imm_ = 0;
  Shape shape_;
};

}  // namespace mesh::engine

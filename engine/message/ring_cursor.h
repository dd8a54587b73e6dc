#pragma once
// Steps through a channel's CTS FIFO. It holds the place of the next credit in the ring, its
// generation, and the immediate that will announce its message. One step moves all three, so that
// no message computes them. Thread: loop. Bound: the ring's size, a power of two.

#include "engine/message/wire.h"
#include "src/base/check.h"

#include <bit>
#include <cstdint>

namespace mesh::engine {

class RingCursor {
 public:
  struct Shape {
    std::uint32_t cts_bytes = 0, slots = 0, channel = 0;
    std::uint32_t stripes = 0;  // in the immediates
  };
  explicit RingCursor(const Shape& shape) : shape_(shape) {
    DCHECK(std::has_single_bit(shape.slots) && shape.slots <= kSlotsMax);
    DCHECK(shape.cts_bytes != 0 && shape.cts_bytes % sizeof(std::uint64_t) == 0);
    set_base(0);
    start(1);
  }

  // Starts a life of the channel, at the first slot: see generation_base().
  void start(std::uint32_t generation) noexcept {
    generation_ = generation;
    rewind();
  }
  // Changes to another set of keys, which the entries hold from now on: see in_key_set().
  void change_keys(std::uint32_t from, std::uint32_t to) noexcept {
    generation_ = in_key_set(generation_, to - from);
  }
  // Sets the address of the ring.
  void set_base(std::uint64_t base) noexcept {
    base_ = base;
    end_ = base + std::uint64_t{shape_.slots} * shape_.cts_bytes;
    address_ = base + std::uint64_t{slot()} * shape_.cts_bytes;
  }

  std::uint32_t slot() const noexcept { return slot_of(imm_); }
  std::uint32_t cts_bytes() const noexcept { return shape_.cts_bytes; }
  std::uint64_t address() const noexcept { return address_; }  // of the entry
  std::uint32_t generation() const noexcept { return generation_; }
  std::uint32_t imm() const noexcept { return imm_; }
  std::uint32_t slots_left() const noexcept {
    return shape_.slots - slot();
  }  // to the end of the ring

  // The difference between the immediates of one slot and of the next.
  static constexpr std::uint32_t kImmStep = 1u << kGenerationBits;
  void step() noexcept { skip(1); }
  // Moves on by at most slots_left() entries.
  void skip(std::uint32_t entries) noexcept {
    DCHECK(entries <= slots_left());
    imm_ += entries * kImmStep;
    address_ += entries * shape_.cts_bytes;
    if (address_ == end_) [[unlikely]] {
      ++generation_;
      rewind();
    }
    DCHECK(address_ == base_ + std::uint64_t{slot()} * shape_.cts_bytes);
  }

 private:
  void rewind() noexcept {
    address_ = base_;
    imm_ = pack({.stripes = shape_.stripes,
                 .channel = shape_.channel,
                 .slot = 0,
                 .generation = generation_});
  }

  std::uint64_t address_ = 0, end_ = 0;
  std::uint32_t generation_ = 0, imm_ = 0;
  Shape shape_;
  std::uint64_t base_ = 0;
};

}  // namespace mesh::engine

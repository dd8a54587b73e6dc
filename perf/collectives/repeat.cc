#include "perf/collectives/repeat.h"

namespace mesh::perf {

void Repeat::start(const RepeatOptions& options, std::uint64_t count) {
  options_ = options;
  next_ = 0;
  left_.store(count, std::memory_order_seq_cst);
  poke();
}

bool Repeat::active() const noexcept {
  return left_.load(std::memory_order_seq_cst) != 0 && pipe_.error() == 0;
}

bool Repeat::turn() {
  std::uint64_t left = left_.load(std::memory_order_acquire);
  bool moved = false;
  while (left != 0 && pipe_.pushed() - pipe_.completed() < options_.slots) {
    driver::NetPiece piece = options_.first;
    piece.data = static_cast<char*>(piece.data) + (next_ % options_.slots) * options_.stride;
    if (!pipe_.push(piece)) break;
    ++next_;
    left_.store(--left, std::memory_order_release);
    moved = true;
  }
  return moved;
}

}  // namespace mesh::perf

#include "perf/collectives/ring_channel.h"

#include <algorithm>
#include <cstring>

namespace mesh::perf {
namespace {

// Chunks end on lines, so that two ranks' parts never share one.
constexpr std::size_t kChunkAlign = 16;

template <typename T>
void reduce(T* out, const T* a, const T* b, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) out[i] = static_cast<T>(a[i] + b[i]);
}

}  // namespace

template <typename T>
void RingChannel<T>::start(const RingWork<T>& work) {
  work_ = work;
  iteration_ = 0;
  loop_begin_ = work.begin;
  step_ = 0;
  begin_loop();
  running_.store(work.iterations > 0, std::memory_order_seq_cst);
  poke();
}

template <typename T>
void RingChannel<T>::begin_loop() {
  const std::size_t left = work_.end - loop_begin_;
  const auto world = static_cast<std::size_t>(place_.world);
  const std::size_t fair = (left + world - 1) / world;
  const std::size_t aligned = (fair + kChunkAlign - 1) / kChunkAlign * kChunkAlign;
  chunk_elements_ = std::min(aligned, kRingSlotBytes / sizeof(T));
  receives_wanted_ += static_cast<std::uint64_t>(2 * (place_.world - 1));
}

// Walks the ring as NCCL does: a chunk starts at its right neighbour, comes home reduced after
// world - 1 steps, and goes round again.
template <typename T>
typename RingChannel<T>::Step RingChannel<T>::step_at(int step) const {
  const int world = place_.world;
  const auto chunk_of = [&](int back) { return (place_.rank + world - back % world) % world; };
  if (step == 0) return {.chunk = chunk_of(1), .send = true};
  if (step < world - 1)
    return {.chunk = chunk_of(step + 1), .receive = true, .reduce = true, .send = true};
  if (step == world - 1)
    return {.chunk = chunk_of(0), .receive = true, .reduce = true, .keep = true, .send = true};
  const bool last = step == 2 * world - 2;
  return {.chunk = chunk_of(step - world + 1), .receive = true, .keep = true, .send = !last};
}

template <typename T>
typename RingChannel<T>::Span RingChannel<T>::span_of(int chunk) const {
  const std::size_t begin =
      std::min(work_.end, loop_begin_ + static_cast<std::size_t>(chunk) * chunk_elements_);
  return {begin, std::min(chunk_elements_, work_.end - begin)};
}

template <typename T>
bool RingChannel<T>::keep_receives_posted() {
  driver::Pipe& pipe = *wires_.previous;
  bool moved = false;
  // A slot is free again when its content was taken, not when it arrived.
  while (pipe.pushed() < receives_wanted_ && pipe.pushed() - taken_ < kRingSlots) {
    driver::NetPiece piece = wires_.recv_slots;
    piece.data = static_cast<char*>(piece.data) + pipe.pushed() % kRingSlots * kRingSlotBytes;
    piece.bytes = kRingSlotBytes;  // the slot's size, as NCCL asks, not the message's
    if (!pipe.push(piece)) break;
    moved = true;
  }
  return moved;
}

template <typename T>
void RingChannel<T>::process(const Step& step) {
  const Span span = span_of(step.chunk);
  const T* input = work_.input + span.begin;
  T* output = work_.output + span.begin;
  const auto* received =
      reinterpret_cast<const T*>(wires_.received + taken_ % kRingSlots * kRingSlotBytes);
  const std::size_t send_slot = sent_ % kRingSlots * kRingSlotBytes;
  auto* outgoing = reinterpret_cast<T*>(wires_.sent + send_slot);
  const std::size_t bytes = span.count * sizeof(T);
  if (step.reduce && step.keep) {
    reduce(output, received, input, span.count);
    std::memcpy(outgoing, output, bytes);
  } else if (step.reduce) {
    reduce(outgoing, received, input, span.count);
  } else {
    const T* source = step.receive ? received : input;
    if (step.keep && bytes != 0) std::memcpy(output, source, bytes);
    if (step.send && bytes != 0) std::memcpy(outgoing, source, bytes);
  }
  if (step.receive) ++taken_;
  if (!step.send) return;
  driver::NetPiece piece = wires_.send_slots;
  piece.data = static_cast<char*>(piece.data) + send_slot;
  piece.bytes = bytes;
  ++sent_;
  wires_.next->push(piece);  // has room: take_step() looked
}

template <typename T>
bool RingChannel<T>::take_step() {
  const Step step = step_at(step_);
  if (step.receive && wires_.previous->completed() <= taken_) return false;
  if (step.send && wires_.next->pushed() - wires_.next->completed() >= kRingSlots) return false;
  process(step);
  advance();
  return true;
}

template <typename T>
void RingChannel<T>::advance() {
  if (++step_ <= 2 * place_.world - 2) return;
  step_ = 0;
  loop_begin_ += chunk_elements_ * static_cast<std::size_t>(place_.world);
  if (loop_begin_ >= work_.end) {
    loop_begin_ = work_.begin;
    if (++iteration_ == work_.iterations) {
      running_.store(false, std::memory_order_seq_cst);
      return;
    }
  }
  begin_loop();
}

template <typename T>
bool RingChannel<T>::turn() {
  if (!running_.load(std::memory_order_acquire)) return false;
  const bool posted = keep_receives_posted();
  return take_step() || posted;
}

template class RingChannel<std::uint8_t>;
template class RingChannel<std::int32_t>;
template class RingChannel<std::int64_t>;
template class RingChannel<float>;
template class RingChannel<double>;

}  // namespace mesh::perf

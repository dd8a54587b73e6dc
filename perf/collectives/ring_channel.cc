#include "perf/collectives/ring_channel.h"

#include "perf/collectives/element.h"

#include <algorithm>
#include <cstring>

namespace mesh::perf {
namespace {

// Chunks end on lines, so that two ranks' parts never share one.
constexpr std::size_t kChunkAlign = 16;

int steps_of(const RingOperation& operation) {
  if (operation.kind == Kind::AllReduce) return 2 * operation.world - 1;
  return has_blocks(operation.kind) ? operation.world : 1;
}

}  // namespace

template <typename T>
RingChannel<T>::RingChannel(const RingOperation& operation, const RingWires& wires)
    : operation_(operation),
      wires_(wires),
      parts_(operation.kind == Kind::AllReduce ? static_cast<std::size_t>(operation.world) : 1),
      steps_(steps_of(operation)) {
  for (int step = 0; step < steps_; ++step) receives_ += step_at(step).receive ? 1u : 0u;
}

template <typename T>
void RingChannel<T>::start(const RingWork<T>& work) {
  work_ = work;
  iteration_ = 0;
  loop_begin_ = work.begin;
  step_ = 0;
  begin_loop();
  stopwatch_.start(static_cast<std::size_t>(work.iterations));
  running_.store(work.iterations > 0, std::memory_order_seq_cst);
  poke();
}

template <typename T>
void RingChannel<T>::begin_loop() {
  const std::size_t left = work_.end - loop_begin_;
  const std::size_t fair = (left + parts_ - 1) / parts_;
  const std::size_t aligned = (fair + kChunkAlign - 1) / kChunkAlign * kChunkAlign;
  chunk_elements_ = std::min(aligned, kRingSlotBytes / sizeof(T));
  receives_wanted_ += receives_;
}

// Walks the ring as NCCL does: a chunk starts at its right neighbour, comes home reduced after
// world - 1 steps, and goes round again.
template <typename T>
typename RingChannel<T>::Step RingChannel<T>::step_at(int step) const {
  const int world = operation_.world;
  const auto chunk_of = [&](int back) { return (operation_.rank + world - back % world) % world; };
  if (has_root(operation_.kind)) return chain_step();
  const bool last = step + 1 == steps_;
  const bool only_gathers = operation_.kind == Kind::AllGather;
  if (only_gathers || step >= world) {
    const int round = only_gathers ? step : step - world + 1;
    return {.chunk = chunk_of(round), .receive = round > 0, .keep = true, .send = !last};
  }
  return {.chunk = chunk_of(step + 1),
          .receive = step > 0,
          .reduce = step > 0,
          .keep = step == world - 1,
          .send = !last};
}

// The only step of a broadcast, which begins at the root, or of a reduce, which ends there.
template <typename T>
typename RingChannel<T>::Step RingChannel<T>::chain_step() const {
  const int world = operation_.world;
  const int behind_root = (operation_.rank - operation_.root + world) % world;
  if (operation_.kind == Kind::Broadcast)
    return {.receive = behind_root != 0, .keep = true, .send = behind_root != world - 1};
  const bool receives = behind_root != 1;
  return {
      .receive = receives, .reduce = receives, .keep = behind_root == 0, .send = behind_root != 0};
}

template <typename T>
typename RingChannel<T>::Span RingChannel<T>::span_of(int chunk) const {
  const auto place = static_cast<std::size_t>(chunk);
  const std::size_t before = parts_ > 1 ? place * chunk_elements_ : 0;
  const std::size_t begin = std::min(work_.end, loop_begin_ + before);
  return {begin + place * work_.block, std::min(chunk_elements_, work_.end - begin)};
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
  if (step.reduce) {
    reduce(operation_.reduction, std::span(step.keep ? output : outgoing, span.count), received,
           input);
    if (step.keep && step.send) std::memcpy(outgoing, output, bytes);
  } else {
    const T* source = step.receive ? received : input;
    if (step.keep && source != output) std::memcpy(output, source, bytes);
    if (step.send) std::memcpy(outgoing, source, bytes);
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
  if (++step_ < steps_) return;
  step_ = 0;
  loop_begin_ += chunk_elements_ * parts_;
  if (loop_begin_ >= work_.end) {
    loop_begin_ = work_.begin;
    stopwatch_.lap();
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

MESH_OF_EACH_ELEMENT(RingChannel)

}  // namespace mesh::perf

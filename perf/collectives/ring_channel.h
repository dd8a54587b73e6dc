#pragma once
// One channel of a collective on a ring: the part a GPU's kernel plays, as a task of the progress
// thread. Messages are chunks of at most one slot; eight slots each way, as NCCL's Simple protocol
// has them. An all-reduce is a reduce-scatter, then an all-gather. Broadcast and reduce are chains
// along the ring that begin or end at the root. Thread: start() from the owner while inactive,
// turn() from the progress thread.

#include "perf/collectives/collective.h"
#include "perf/collectives/stopwatch.h"
#include "perf/driver/pipe.h"
#include "perf/driver/progress_thread.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace mesh::perf {

inline constexpr std::uint32_t kRingSlots = 8;                          // NCCL_STEPS
inline constexpr std::size_t kRingSlotBytes = std::size_t{512} * 1024;  // 4 MiB over 8 slots

// The pipes to the neighbours and their staging memory, kRingSlots * kRingSlotBytes each.
struct RingWires {
  driver::Pipe* next = nullptr;
  driver::Pipe* previous = nullptr;
  driver::NetPiece send_slots, recv_slots;  // of slot 0
  char* sent = nullptr;                     // our own view of these slots
  const char* received = nullptr;
};

// The operation, as this rank sees it.
struct RingOperation {
  Kind kind = Kind::AllReduce;
  Reduction reduction = Reduction::Sum;
  int root = 0;
  int rank = 0;
  int world = 2;
};

// The part that this channel moves: elements [begin, end) of each block of both arrays.
template <typename T>
struct RingWork {
  const T* input = nullptr;
  T* output = nullptr;
  std::size_t begin = 0, end = 0;
  std::size_t block = 0;  // elements from one rank's block to the next
  int iterations = 0;
};

template <typename T>
class RingChannel final : public driver::Task {
 public:
  RingChannel(const RingOperation& operation, const RingWires& wires);

  void start(const RingWork<T>& work);
  bool turn() override;
  bool active() const noexcept override { return running_.load(std::memory_order_seq_cst); }
  // Returns the time of each iteration on this rank. For the owner while inactive.
  const std::vector<double>& samples_us() const noexcept { return stopwatch_.samples_us(); }

 private:
  // The work of one step of the ring on its chunk.
  struct Step {
    int chunk = 0;
    bool receive = false, reduce = false, keep = false, send = false;
  };
  struct Span {
    std::size_t begin = 0, count = 0;
  };

  Step step_at(int step) const;
  Step chain_step() const;
  Span span_of(int chunk) const;
  bool keep_receives_posted();
  bool take_step();
  void process(const Step& step);
  void advance();
  void begin_loop();

  const RingOperation operation_;
  const RingWires wires_;
  const std::size_t parts_;     // chunks side by side in a loop
  const int steps_;             // of a loop
  std::uint64_t receives_ = 0;  // of a loop
  Stopwatch stopwatch_;
  RingWork<T> work_;                // written in start(), released by running_
  std::size_t chunk_elements_ = 0;  // of the current loop
  std::size_t loop_begin_ = 0;
  int step_ = 0;
  int iteration_ = 0;
  std::uint64_t sent_ = 0, taken_ = 0;  // since the pipes exist
  std::uint64_t receives_wanted_ = 0;   // of the current loop and all before
  std::atomic<bool> running_{false};    // released in start(), acquired in turn(); and back
};

}  // namespace mesh::perf

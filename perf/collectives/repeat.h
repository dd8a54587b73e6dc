#pragma once
// Keeps a pipe busy with the same few pieces again and again, refilled by the progress thread
// itself, so that the owner sleeps meanwhile. Thread: start() from the owner while inactive, turn()
// from the progress thread.

#include "perf/driver/pipe.h"
#include "perf/driver/progress_thread.h"

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace mesh::perf {

struct RepeatOptions {
  driver::NetPiece first;  // piece i is `first` moved by (i % slots) * stride
  std::size_t stride = 0;
  std::uint32_t slots = 1;  // also the most that are open at once
};

class Repeat final : public driver::Task {
 public:
  explicit Repeat(driver::Pipe& pipe) : pipe_(pipe) {}

  void start(const RepeatOptions& options, std::uint64_t count);
  bool turn() override;
  bool active() const noexcept override;

 private:
  driver::Pipe& pipe_;
  RepeatOptions options_;  // written in start(), released by left_
  std::uint64_t next_ = 0;
  // Pieces that are not pushed yet; released in start(), acquired in turn().
  std::atomic<std::uint64_t> left_{0};
};

}  // namespace mesh::perf

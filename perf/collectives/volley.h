#pragma once
// One message to and fro, and the time of each round trip: the server sends, and the returner
// answers each message with one of its size. Without a pause the clock is read once a round trip,
// as perftest does, so that nothing lies between two of them. Thread: start() and samples from the
// owner while inactive, turn() from the progress thread.

#include "perf/driver/pipe.h"
#include "perf/driver/progress_thread.h"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace mesh::perf {

// Receives are posted that far ahead, as NCCL's proxy does.
inline constexpr std::uint32_t kVolleySlots = 8;

enum class VolleyRole : std::uint8_t { Server, Returner };

struct VolleyPipes {
  driver::Pipe* send = nullptr;
  driver::Pipe* recv = nullptr;
};

struct VolleyBall {
  driver::NetPiece sent, received;  // of the first slot; kVolleySlots of them, `stride` apart
  std::size_t stride = 0;
  // The server waits so long after each answer. Both sides test their open receives meanwhile.
  std::chrono::microseconds pause{0};
};

class Volley final : public driver::Task {
 public:
  Volley(VolleyRole role, const VolleyPipes& pipes) : role_(role), pipes_(pipes) {}

  void start(const VolleyBall& ball, std::uint64_t count);
  bool turn() override;
  bool active() const noexcept override;

  // Returns half of each round trip of the last start(), in microseconds. At the server only.
  const std::vector<double>& samples_us() const noexcept { return samples_us_; }

 private:
  using Clock = std::chrono::steady_clock;
  driver::NetPiece in_slot(driver::NetPiece first, std::uint64_t number) const;
  bool post_receives();
  bool send_next();
  bool serve();
  void note_round_trip();

  const VolleyRole role_;
  const VolleyPipes pipes_;
  // Written in start(), released by left_.
  VolleyBall ball_;
  std::uint64_t receives_left_ = 0, sends_left_ = 0, answered_ = 0;
  Clock::time_point served_;
  std::vector<double> samples_us_;
  // Messages that have not arrived yet; released in start() and turn(), acquired there and in
  // active().
  std::atomic<std::uint64_t> left_{0};
};

}  // namespace mesh::perf

#pragma once
// Both directions of one connection pair at once, for a fixed time: sends as many messages as go,
// and notes the arrival of each message of the other side. Too few messages tell no rate, so it
// then goes on for a bounded time more. Short messages (end marks) follow the last long one, so
// that the receiver knows the end. Thread: start() and the readers from the owner while inactive,
// turn() from the progress thread.

#include "perf/driver/pipe.h"
#include "perf/driver/progress_thread.h"

#include <atomic>
#include <chrono>
#include <cstdint>

namespace mesh::doctor {

struct FloodPieces {
  driver::NetPiece sent;      // one message, sent again and again
  driver::NetPiece received;  // the first of Flood::kDepth places, each as large as `sent`
};

struct FloodTimes {
  std::chrono::milliseconds whole{0};
  std::chrono::milliseconds warm{0};  // the first part of `whole`, which does not count
  std::chrono::milliseconds more{0};  // after `whole`, at most, until kLeast messages are sent
  bool sends = true;                  // false: this end only receives
};

class Flood final : public driver::Task {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::uint32_t kDepth = 8;           // NCCL_STEPS
  static constexpr std::uint64_t kLeast = kDepth + 4;  // messages that tell a rate, after `warm`

  Flood(driver::NetApi& api, void* send_comm, void* recv_comm);

  void start(const FloodPieces& pieces, const FloodTimes& times);
  bool turn() override;
  bool active() const noexcept override;
  int error() const noexcept override;

  double received_gbps() const noexcept;  // payload, in 10^9 bits a second

 private:
  bool send_more(Clock::time_point now);
  bool receive_more();
  bool take(Clock::time_point now);
  bool is_over(Clock::time_point now) const noexcept;  // true: no long message is sent any more
  bool sent_all() const noexcept { return marks_ == kDepth && send_.completed() == send_.pushed(); }

  driver::Pipe send_, recv_;
  FloodPieces pieces_;
  Clock::time_point warm_until_, end_, first_at_, last_at_;
  Clock::time_point send_until_, send_least_until_;
  std::uint64_t sent_ = 0;        // after `warm`
  std::uint32_t marks_ = kDepth;  // end marks sent
  bool ended_ = true;             // an end mark has come
  std::uint64_t taken_ = 0, counted_ = 0;
  std::atomic<bool> active_{false};  // released in start() and turn(), acquired in active()
};

}  // namespace mesh::doctor

#include "perf/collectives/volley.h"

namespace mesh::perf {

void Volley::start(const VolleyBall& ball, std::uint64_t count) {
  ball_ = ball;
  receives_left_ = sends_left_ = count;
  answered_ = pipes_.recv->completed();
  samples_us_.clear();
  if (role_ == VolleyRole::Server) samples_us_.reserve(count);
  left_.store(count, std::memory_order_seq_cst);
  poke();
}

bool Volley::active() const noexcept {
  return left_.load(std::memory_order_seq_cst) != 0 && pipes_.send->error() == 0 &&
         pipes_.recv->error() == 0;
}

driver::NetPiece Volley::in_slot(driver::NetPiece first, std::uint64_t number) const {
  first.data = static_cast<char*>(first.data) + number % kVolleySlots * ball_.stride;
  return first;
}

bool Volley::post_receives() {
  bool moved = false;
  while (receives_left_ != 0 && pipes_.recv->pushed() - answered_ < kVolleySlots) {
    if (!pipes_.recv->push(in_slot(ball_.received, pipes_.recv->pushed()))) break;
    --receives_left_;
    moved = true;
  }
  return moved;
}

bool Volley::send_next() {
  if (!pipes_.send->push(in_slot(ball_.sent, pipes_.send->pushed()))) return false;
  --sends_left_;
  return true;
}

// Sends the next ball of a server that has none under way, unless the pause goes on.
bool Volley::serve() {
  const bool first = samples_us_.empty();
  const bool pauses = ball_.pause.count() != 0 && !first;
  if (pauses && Clock::now() < served_ + ball_.pause) return false;
  if (pauses || first) served_ = Clock::now();
  return send_next();
}

void Volley::note_round_trip() {
  const Clock::time_point now = Clock::now();
  samples_us_.push_back(std::chrono::duration<double, std::micro>(now - served_).count() / 2);
  served_ = now;
}

// If as many messages are unsent as unanswered, the server has none under way and serves the next.
// The returner sends only the answers that it owes.
bool Volley::turn() {
  std::uint64_t left = left_.load(std::memory_order_acquire);
  if (left == 0) return false;
  bool moved = post_receives();
  const bool server = role_ == VolleyRole::Server;
  if (server && sends_left_ == left) return serve() || moved;
  if (pipes_.recv->completed() == answered_) return moved;
  if (!server && !send_next()) return moved;
  ++answered_;
  if (server) note_round_trip();
  left_.store(--left, std::memory_order_release);
  if (server && left != 0 && ball_.pause.count() == 0) send_next();
  return true;
}

}  // namespace mesh::perf

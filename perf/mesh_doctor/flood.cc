#include "perf/mesh_doctor/flood.h"

namespace mesh::doctor {

Flood::Flood(driver::NetApi& api, void* send_comm, void* recv_comm)
    : send_(api, {.side = driver::Side::Send, .comm = send_comm, .depth = kDepth}),
      recv_(api, {.side = driver::Side::Recv, .comm = recv_comm, .depth = kDepth}) {}

void Flood::start(const FloodPieces& pieces, const FloodTimes& times) {
  pieces_ = pieces;
  const Clock::time_point now = Clock::now();
  warm_until_ = now + times.warm;
  end_ = now + times.whole;
  send_until_ = times.sends ? end_ : now;
  send_least_until_ = times.sends ? end_ + times.more : now;
  sent_ = 0;
  marks_ = 0;
  ended_ = false;
  counted_ = 0;
  active_.store(true, std::memory_order_seq_cst);
  poke();
}

bool Flood::active() const noexcept {
  return active_.load(std::memory_order_seq_cst) && error() == 0;
}

int Flood::error() const noexcept { return send_.error() != 0 ? send_.error() : recv_.error(); }

bool Flood::is_over(Clock::time_point now) const noexcept {
  return now >= send_until_ && (sent_ >= kLeast || now >= send_least_until_);
}

bool Flood::send_more(Clock::time_point now) {
  if (marks_ == kDepth) return false;
  driver::NetPiece piece = pieces_.sent;
  const bool over = is_over(now);
  if (over) piece.bytes = 1;
  if (!send_.push(piece)) return false;
  if (over) ++marks_;
  if (!over && now >= warm_until_) ++sent_;
  return true;
}

bool Flood::receive_more() {
  bool moved = false;
  while (!ended_) {
    driver::NetPiece piece = pieces_.received;
    piece.data = static_cast<char*>(piece.data) + recv_.pushed() % kDepth * piece.bytes;
    if (!recv_.push(piece)) break;
    moved = true;
  }
  return moved;
}

bool Flood::take(Clock::time_point now) {
  if (recv_.completed() == taken_) return false;
  const bool mark = recv_.bytes_of(taken_++) != pieces_.received.bytes;
  ended_ = ended_ || mark;
  if (mark || now < warm_until_ || (now > end_ && counted_ >= kLeast)) return true;
  if (counted_++ == 0) first_at_ = now;
  last_at_ = now;
  return true;
}

bool Flood::turn() {
  if (!active_.load(std::memory_order_acquire)) return false;
  const Clock::time_point now = Clock::now();
  bool moved = send_more(now);
  // There are as many end marks as open receives, so every place is used, and what has arrived must
  // be looked at before its place is used again.
  while (take(now)) moved = true;
  moved = receive_more() || moved;
  moved = send_.turn() || moved;
  moved = recv_.turn() || moved;
  if (ended_ && sent_all() && recv_.completed() == recv_.pushed() && taken_ == recv_.completed())
    active_.store(false, std::memory_order_release);
  return moved;
}

double Flood::received_gbps() const noexcept {
  if (counted_ < 2) return 0;
  const double seconds = std::chrono::duration<double>(last_at_ - first_at_).count();
  const double bits =
      static_cast<double>(counted_ - 1) * 8.0 * static_cast<double>(pieces_.received.bytes);
  return seconds > 0 ? bits / seconds / 1e9 : 0;
}

}  // namespace mesh::doctor

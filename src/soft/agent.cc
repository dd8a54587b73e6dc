// The host's one thread: it meets hosts of other processes, and turns the NICs when nobody else
// does.

#include "src/soft/soft_host.h"

namespace mesh::soft {

namespace {
constexpr int kLookMs = 1;  // a NIC that nobody has turned for this long is turned by us
constexpr std::uint64_t kAwakeNs = 100'000'000;  // idle for this long: sleep until somebody rings
constexpr int kTurnsPerLook = 64;                // then look after the sockets again
constexpr int kForEver = -1;
}  // namespace

void SoftHost::run() {
  turns_seen_.assign(nics_.size(), 0);
  int timeout_ms = kForEver;
  if (options_.agent == Agent::Thread) timeout_ms = kLookMs;
  while (!stop_.load(std::memory_order_acquire)) {
    rendezvous_->poll_once(timeout_ms);
    if (options_.agent == Agent::Thread) timeout_ms = tend();
  }
}

// Answers how long to wait before the next look. Asleep, a doorbell wakes us: it is rung after the
// work is visible, and we look for work after we have said that we sleep.
int SoftHost::tend() {
  const Clock clock;
  std::atomic<std::uint32_t>& asleep = board_->host().agent_asleep;
  asleep.store(0, std::memory_order_seq_cst);  // also woken by a socket
  const std::uint64_t now_ns = clock.now_ns();
  if (busy_at_ns_ == 0) busy_at_ns_ = now_ns;
  bool moved = false;
  for (std::size_t i = 0; i < nics_.size(); ++i) {
    Nic& nic = *nics_[i];
    if (nic.turns() == turns_seen_[i])
      for (int turn = 0; turn < kTurnsPerLook && nic.try_turn(); ++turn) moved = true;
    turns_seen_[i] = nic.turns();
  }
  if (moved) {
    busy_at_ns_ = now_ns;
    return 0;
  }
  if (now_ns - busy_at_ns_ < kAwakeNs) return kLookMs;
  busy_at_ns_ = 0;
  asleep.store(1, std::memory_order_seq_cst);
  bool work = false;
  for (const std::unique_ptr<Nic>& nic : nics_) work |= nic->has_work();
  if (!work) return kForEver;
  asleep.store(0, std::memory_order_seq_cst);
  return kLookMs;
}

}  // namespace mesh::soft

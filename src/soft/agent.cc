// The host's one thread: it meets hosts of other processes, and turns the NICs when no other thread
// does.

#include "src/base/check.h"
#include "src/soft/soft_host.h"

namespace mesh::soft {

namespace {
constexpr int kLookMs = 1;  // the agent turns a NIC that no thread has turned for this long
constexpr std::uint64_t kAwakeNs = 100'000'000;  // then the idle agent sleeps until a bell rings
constexpr int kTurnsPerLook = 64;                // then it looks at the sockets again
constexpr int kForEver = -1;
}  // namespace

void SoftHost::run() {
  DCHECK(rendezvous_ != nullptr && !options_.clock.manual());
  turns_seen_.assign(nics_.size(), 0);
  int timeout_ms = kForEver;
  if (options_.agent == Agent::Thread) timeout_ms = kLookMs;
  while (!stop_.load(std::memory_order_acquire)) {
    rendezvous_->poll_once(timeout_ms);
    if (options_.agent == Agent::Thread) timeout_ms = tend();
  }
}

// Answers how long to wait before the next look. A bell wakes the sleeping agent: it is rung after
// the work is visible, and the agent looks for work after it has said that it sleeps.
int SoftHost::tend() {
  DCHECK(turns_seen_.size() == nics_.size());
  const Clock clock;
  std::atomic<std::uint32_t>& asleep = board_->host().agent_asleep;
  asleep.store(0, std::memory_order_seq_cst);  // a socket may have woken us
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

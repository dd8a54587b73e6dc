#include "src/relay/middle.h"

#include "src/base/own_thread.h"
#include "src/base/timeouts.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace mesh::relay {

namespace {
// A nap is at most 1 / kNapShare of the pause that it prolongs.
constexpr std::uint64_t kNapShare = 64;
}  // namespace

Middle::~Middle() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard guard(mutex_);
    stop_.store(true, std::memory_order_relaxed);
  }
  changed_.notify_all();
  thread_.join();
}

Status Middle::start(std::function<void()> prepare) {
  return start_own_thread(thread_, "mesh-relay", [this, prepare = std::move(prepare)] {
    if (prepare) prepare();
    run();
  });
}

Status Middle::add(Chain& chain) {
  {
    const std::lock_guard guard(mutex_);
    if (!chains_.add(chain)) return Errc::Exhausted;
    came_ = true;
  }
  changed_.notify_all();
  return {};
}

void Middle::remove(Chain& chain) noexcept {
  const std::lock_guard guard(mutex_);
  static_cast<void>(chains_.remove(chain));
}

std::uint32_t Middle::turn() noexcept {
  std::uint32_t moved = 0;
  bool waits = false;
  chains_.pass([&](Chain& chain) {
    moved += chain.turn();
    waits |= chain.waits();
  });
  waits_ = waits;
  return moved;
}

bool Middle::wait_for_chains() {
  if (size() == 0) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return size() != 0 || stop_.load(std::memory_order_relaxed); });
  }
  return !stop_.load(std::memory_order_relaxed);
}

void Middle::rest() {
  const IdleBackOff::Act act = idle_.next();
  if (act == IdleBackOff::Act::Spin) return;
  if (act == IdleBackOff::Act::Rest && !waits_) return nap();
  ::sched_yield();
}

void Middle::nap() {
  const std::uint64_t nap_ns = std::clamp(napped_ns_ / kNapShare, kNapMinNs, kRelayNapMaxNs);
  napped_ns_ += nap_ns;
  std::unique_lock lock(mutex_);
  const auto news = [this] { return came_ || stop_.load(std::memory_order_relaxed); };
  if (changed_.wait_for(lock, std::chrono::nanoseconds(nap_ns), news)) begin_anew();
  came_ = false;
}

void Middle::run() noexcept {
  while (wait_for_chains()) {
    if (turn() != 0) {
      begin_anew();
    } else {
      rest();
    }
  }
}

}  // namespace mesh::relay

#include "src/relay/middle.h"

#include "src/base/check.h"
#include "src/base/own_thread.h"
#include "src/base/yielding.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace mesh::relay {

namespace {
constexpr std::uint32_t kTurnsBetweenYields = 32;  // as the engine's pollers do, which say why
constexpr std::uint32_t kSpinTurns = 2000;
constexpr std::uint32_t kYieldTurns = 4000;  // after that naps
constexpr std::uint64_t kNapMinNs = 50'000;
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
    const auto free = std::find_if(chains_.begin(), chains_.end(), [](const auto& place) {
      return place.load(std::memory_order_relaxed) == nullptr;
    });
    if (free == chains_.end()) return Errc::Exhausted;
    free->store(&chain, std::memory_order_release);
    const auto above = static_cast<std::size_t>(free - chains_.begin()) + 1;
    top_.store(std::max(top_.load(std::memory_order_relaxed), above), std::memory_order_release);
    size_.fetch_add(1, std::memory_order_relaxed);
    came_ = true;
  }
  changed_.notify_all();
  return {};
}

void Middle::remove(Chain& chain) noexcept {
  const std::lock_guard guard(mutex_);
  const auto found = std::find_if(chains_.begin(), chains_.end(), [&chain](const auto& place) {
    return place.load(std::memory_order_relaxed) == &chain;
  });
  if (found == chains_.end()) return;
  // seq_cst, as in turn(): either the turn sees null, or we see that it runs and wait for its end.
  found->store(nullptr, std::memory_order_seq_cst);
  size_.fetch_sub(1, std::memory_order_relaxed);
  const std::uint64_t seen = turns_.load(std::memory_order_seq_cst);
  Yielding turn;
  while (seen % 2 == 1 && turns_.load(std::memory_order_seq_cst) == seen) turn.wait();
}

std::uint32_t Middle::turn() noexcept {
  std::uint32_t moved = 0;
  bool waits = false;
  turns_.fetch_add(1, std::memory_order_seq_cst);
  const std::size_t top = top_.load(std::memory_order_acquire);
  for (std::size_t i = 0; i < top; ++i) {
    Chain* const chain = chains_[i].load(std::memory_order_seq_cst);
    if (chain == nullptr) continue;
    moved += chain->turn();
    waits |= chain->waits();
  }
  waits_ = waits;
  turns_.fetch_add(1, std::memory_order_seq_cst);
  return moved;
}

bool Middle::wait_for_chains() {
  if (size() == 0) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return size() != 0 || stop_.load(std::memory_order_relaxed); });
  }
  return !stop_.load(std::memory_order_relaxed);
}

void Middle::rest(Idle& idle) {
  if (++idle.turns < kSpinTurns && idle.turns % kTurnsBetweenYields != 0) return;
  if (idle.turns < kYieldTurns || waits_) {
    ::sched_yield();
    return;
  }
  idle.turns = kYieldTurns;
  const std::uint64_t nap_ns = std::clamp(idle.napped_ns / kNapShare, kNapMinNs, kNapMaxNs);
  idle.napped_ns += nap_ns;
  std::unique_lock lock(mutex_);
  const auto news = [this] { return came_ || stop_.load(std::memory_order_relaxed); };
  if (changed_.wait_for(lock, std::chrono::nanoseconds(nap_ns), news)) idle = {};
  came_ = false;
}

void Middle::run() noexcept {
  Idle idle;
  while (wait_for_chains()) {
    if (turn() != 0) {
      idle = {};
    } else {
      rest(idle);
    }
  }
}

}  // namespace mesh::relay

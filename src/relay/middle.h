#pragma once
// The chains that run through this host, and the thread that turns them. The thread spins while
// they carry bytes, and naps when they do not: up to kRelayNapMaxNs, but never for more than a
// small part of the pause so far, and until a chain is added. It waits while there is no chain.
// With a manual clock there is no thread, and the clock's owner calls turn(). Thread: add and
// remove from any control thread; turn() from the thread alone, or from one caller without it.
// Bound: kChainsMax.

#include <mesh/status.h>

#include "src/base/served_set.h"
#include "src/relay/chain.h"

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>

namespace mesh::relay {

inline constexpr std::size_t kChainsMax = 1024;
inline constexpr std::uint32_t kYieldTurns = 4000;  // that move nothing; then naps

class Middle {
 public:
  Middle() = default;
  ~Middle();  // joins the thread; chains that are still here are only forgotten
  Middle(const Middle&) = delete;
  Middle& operator=(const Middle&) = delete;

  // Starts the thread, once, unless the owner calls turn(). `prepare` runs first on the thread (to
  // pin it). Returns System if no thread is to be had.
  Status start(std::function<void()> prepare = {});

  // Adds a chain, which must live until remove() has returned. Returns Exhausted if kChainsMax
  // chains are here.
  Status add(Chain& chain);
  void remove(Chain& chain) noexcept;  // afterwards nobody turns it
  std::size_t size() const noexcept { return chains_.size(); }

  // Turns every chain once. Returns how much was moved.
  std::uint32_t turn() noexcept;

 private:
  void run() noexcept;
  bool wait_for_chains();  // false: the thread must end
  void rest();
  void nap();
  void begin_anew() noexcept {
    idle_.worked();
    napped_ns_ = 0;
  }

  ServedSet<Chain, kChainsMax> chains_;
  std::mutex mutex_;  // of add and remove, and of the thread's naps and its wait for a chain
  std::condition_variable changed_;
  bool waits_ = false;  // the thread's: a chain waits for a rail, so there is no nap
  bool came_ = false;   // a chain was added while the thread did not wait for one
  IdleBackOff idle_{kYieldTurns};
  std::uint64_t napped_ns_ = 0;  // since a turn moved something
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace mesh::relay

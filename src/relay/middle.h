#pragma once
// The chains that run through this host, and the thread that turns them: it spins while they carry
// bytes, then naps, up to kNapMaxNs but never for more than a small part of the pause so far, until
// a chain is added, and waits while there is none. With a manual clock there is no thread, and the
// clock's owner calls turn(). Thread: add and remove from any control thread; turn() from the
// thread alone, or from one caller without it. Bound: kChainsMax.

#include <mesh/status.h>

#include "src/relay/chain.h"

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>

namespace mesh::relay {

inline constexpr std::size_t kChainsMax = 1024;
inline constexpr std::uint64_t kNapMaxNs = 100'000'000;

class Middle {
 public:
  Middle() = default;
  ~Middle();  // joins the thread; chains that are still here are only forgotten
  Middle(const Middle&) = delete;
  Middle& operator=(const Middle&) = delete;

  // Once, unless turn() is called by the owner. `prepare` runs first on the thread (to pin it).
  // System: no thread is to be had.
  Status start(std::function<void()> prepare = {});

  // The chain lives until remove() has returned. Exhausted: kChainsMax are here.
  Status add(Chain& chain);
  void remove(Chain& chain) noexcept;  // afterwards nobody turns it
  std::size_t size() const noexcept { return size_.load(std::memory_order_relaxed); }

  // One turn of every chain; how much was moved.
  std::uint32_t turn() noexcept;

 private:
  void run() noexcept;
  bool wait_for_chains();  // false: it is over
  struct Idle {
    std::uint32_t turns = 0;      // that moved nothing, one after the other
    std::uint64_t napped_ns = 0;  // between them
  };
  void rest(Idle& idle);

  // Null: free. Released in add(), acquired in turn().
  std::array<std::atomic<Chain*>, kChainsMax> chains_{};
  std::atomic<std::size_t> top_{0};      // nothing was ever at or above
  std::atomic<std::uint64_t> turns_{0};  // even: between turns
  std::mutex mutex_;  // of add and remove, and of the thread's naps and its wait for a chain
  std::condition_variable changed_;
  bool waits_ = false;  // a chain, for a rail: no time for a nap. Of the thread
  bool came_ = false;   // a chain, while the thread did not wait for one
  std::atomic<std::size_t> size_{0};
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace mesh::relay

#pragma once
// The chains that run through this host, and the thread that turns them. The thread spins while
// they carry bytes, and sleeps when they do not: a completion of a chain rings a bell, which wakes
// it. It looks every kRelayNapMaxNs too. Where a device has no completion events, and while work is
// under way that no completion announces, a sleep is a small part of the pause so far. It waits
// while there is no chain. With a manual clock there is no thread, and the clock's owner calls
// turn(). Thread: start, add, remove and wake from any control thread; turn() from the thread
// alone, or from one caller without it; sleeps() from any. Bound: kChainsMax.

#include <mesh/status.h>

#include "src/base/served_set.h"
#include "src/base/unique_fd.h"
#include "src/relay/chain.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>

namespace mesh::relay {

inline constexpr std::size_t kChainsMax = 1024;
inline constexpr std::uint32_t kYieldTurns = 4000;  // that move nothing; then it sleeps

class Middle {
 public:
  Middle() = default;
  ~Middle();  // joins the thread; chains that are still here are only forgotten
  Middle(const Middle&) = delete;
  Middle& operator=(const Middle&) = delete;

  // Starts the thread, once and before the first add(), unless the owner calls turn(). `prepare`
  // runs first on the thread (to pin it). Returns System if no thread or no descriptor is to be
  // had.
  Status start(std::function<void()> prepare = {});

  // Adds a chain, which must live until remove() has returned. Returns Exhausted if kChainsMax
  // chains are here.
  Status add(Chain& chain);
  void remove(Chain& chain) noexcept;  // afterwards nobody turns it
  std::size_t size() const noexcept { return chains_.size(); }
  void wake() noexcept;  // has the thread turn the chains now: one was closed

  // Turns every chain once. Returns how much was moved.
  std::uint32_t turn() noexcept;

  // Counts the sleeps of the thread by what has ended them; add(), remove() and wake() are in none.
  struct Sleeps {
    std::uint64_t begun = 0, rung = 0, timed_out = 0;
  };
  Sleeps sleeps() const noexcept;

 private:
  void run() noexcept;
  Status open_descriptors();
  bool wait_for_chains();  // false: the thread must end
  void rest();
  void sleep();
  bool arm_bells() noexcept;
  void listen(Chain& chain) noexcept;
  void cease_to_listen(const Chain& chain) noexcept;
  std::uint64_t sleep_ns() const noexcept;
  void take_wake() noexcept;
  void take_rings() noexcept;
  void begin_anew() noexcept {
    idle_.worked();
    slept_ns_ = 0;
    bells_ = Bells::NotArmed;
  }

  ServedSet<Chain, kChainsMax> chains_;
  std::mutex mutex_;               // of add and remove
  UniqueFd wake_;                  // an eventfd: add(), wake() and the end
  UniqueFd ringing_;               // an epoll of the bells
  std::atomic<bool> deaf_{false};  // a bell has no place in it

  // The thread's:
  enum class Bells : std::uint8_t { NotArmed, Armed, Mute };
  Bells bells_ = Bells::NotArmed;
  bool waits_ = false;    // a chain waits for a rail, so there is no sleep
  bool at_rest_ = false;  // all chains are
  IdleBackOff idle_{kYieldTurns};
  std::uint64_t slept_ns_ = 0;                                    // since a turn moved something
  std::atomic<std::uint64_t> begun_{0}, rung_{0}, timed_out_{0};  // relaxed: figures

  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace mesh::relay

#pragma once
// epoll and eventfd: which sockets are ready, and a wake-up for whoever waits for them.
// Level-triggered. Thread: watch, change, forget and ready by the owner; wait and wake by any.

#include <mesh/status.h>

#include "src/base/unique_fd.h"

#include <atomic>
#include <cstdint>
#include <span>

#include <sys/epoll.h>

namespace mesh::engine {

class SocketWatcher {
 public:
  static constexpr std::uint64_t kWakeToken = 0;

  Status open();

  Status watch(int fd, std::uint64_t token, std::uint32_t events);
  bool change(int fd, std::uint64_t token,
              std::uint32_t events) noexcept;  // false: it is watched as before
  void forget(int fd) noexcept;

  std::span<epoll_event> ready(
      std::span<epoll_event> room) noexcept;  // never blocks; data.u64 is the token
  void wait(int timeout_ms) noexcept;         // negative: for ever
  void wake() noexcept;
  void wake_taken() noexcept;  // after kWakeToken was among ready()

 private:
  UniqueFd epoll_;
  UniqueFd event_;
  std::atomic<bool> woken_{false};  // set in wake(), cleared in wake_taken(); both acq_rel, so what
                                    // was written before wake() is seen
};

}  // namespace mesh::engine

#pragma once
// Tells which sockets are ready (epoll, level-triggered), and wakes whoever waits for them
// (eventfd). Thread: watch, change, forget and ready by the owner; wait and wake by any. Bound:
// ready() fills the room it is given.

#include <mesh/status.h>

#include "src/base/unique_fd.h"

#include <atomic>
#include <cstdint>
#include <span>

#include <sys/epoll.h>

namespace mesh::engine {

class SocketWatcher {
 public:
  static constexpr std::uint64_t kWakeKey = 0;

  Status open();

  Status watch(int fd, std::uint64_t key, std::uint32_t events);
  // Returns false if it failed; then the descriptor is watched as before.
  bool change(int fd, std::uint64_t key, std::uint32_t events) noexcept;
  void forget(int fd) noexcept;

  // Never blocks. data.u64 of each event is the key.
  std::span<epoll_event> ready(std::span<epoll_event> room) noexcept;
  void wait(int timeout_ms) noexcept;  // negative: without end
  void wake() noexcept;
  void wake_taken() noexcept;  // call it when kWakeKey was among ready()

 private:
  UniqueFd epoll_;
  UniqueFd event_;
  // Set in wake() and cleared in wake_taken(), both acq_rel: what was written before wake() is
  // seen after it.
  std::atomic<bool> woken_{false};
};

}  // namespace mesh::engine

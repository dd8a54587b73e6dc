#include "src/relay/middle.h"

#include "src/base/fork_guard.h"
#include "src/base/log.h"
#include "src/base/own_thread.h"
#include "src/base/timeouts.h"

#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace mesh::relay {

namespace {
// Without bells a sleep is at most 1 / kSleepShare of the pause that it prolongs.
constexpr std::uint64_t kSleepShare = 64;

void add_one(std::atomic<std::uint64_t>& figure) noexcept {
  figure.store(figure.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}
}  // namespace

Middle::~Middle() {
  if (!thread_.joinable()) return;
  stop_.store(true, std::memory_order_release);
  wake();
  thread_.join();
}

Status Middle::open_descriptors() {
  wake_ = UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  ringing_ = UniqueFd(::epoll_create1(EPOLL_CLOEXEC));
  if (!wake_.valid() || !ringing_.valid()) {
    LOG_WARN("relay: no descriptor for the thread of the chains: {}", std::strerror(errno));
    return Errc::System;
  }
  fork_close_fd(wake_.get());
  fork_close_fd(ringing_.get());
  return {};
}

Status Middle::start(std::function<void()> prepare) {
  if (const Status opened = open_descriptors(); !opened.ok()) return opened;
  return start_own_thread(thread_, "mesh-relay", [this, prepare = std::move(prepare)] {
    if (prepare) prepare();
    run();
  });
}

void Middle::listen(Chain& chain) noexcept {
  if (!ringing_.valid()) return;
  for (const Side side : kSides) {
    Bell* const bell = chain.bell(side);
    if (bell == nullptr || bell->listeners++ != 0) continue;
    epoll_event event{.events = EPOLLIN | EPOLLET, .data = {}};
    if (::epoll_ctl(ringing_.get(), EPOLL_CTL_ADD, bell->fd(), &event) != 0)
      deaf_.store(true, std::memory_order_relaxed);
  }
}

void Middle::cease_to_listen(const Chain& chain) noexcept {
  if (!ringing_.valid()) return;
  for (const Side side : kSides) {
    Bell* const bell = chain.bell(side);
    if (bell == nullptr || --bell->listeners != 0) continue;
    ::epoll_ctl(ringing_.get(), EPOLL_CTL_DEL, bell->fd(), nullptr);
  }
}

Status Middle::add(Chain& chain) {
  {
    const std::lock_guard guard(mutex_);
    if (!chains_.add(chain)) return Errc::Exhausted;
    listen(chain);
  }
  wake();
  return {};
}

void Middle::remove(Chain& chain) noexcept {
  const std::lock_guard guard(mutex_);
  if (chains_.remove(chain)) cease_to_listen(chain);
}

void Middle::wake() noexcept {
  if (wake_.valid()) ::eventfd_write(wake_.get(), 1);
}

// The bells are edge-triggered: the descriptor of a card that has left stays ready, and must not
// wake the thread again and again. arm_bells() takes the events themselves.
void Middle::take_rings() noexcept {
  std::array<epoll_event, 16> rings{};
  ::epoll_wait(ringing_.get(), rings.data(), static_cast<int>(rings.size()), 0);
  add_one(rung_);
}

void Middle::take_wake() noexcept {
  eventfd_t count = 0;
  ::eventfd_read(wake_.get(), &count);
}

std::uint32_t Middle::turn() noexcept {
  std::uint32_t moved = 0;
  bool waits = false, at_rest = true;
  chains_.pass([&](Chain& chain) {
    moved += chain.turn();
    waits |= chain.waits();
    at_rest &= chain.at_rest();
  });
  waits_ = waits;
  at_rest_ = at_rest;
  return moved;
}

bool Middle::wait_for_chains() {
  while (size() == 0 && !stop_.load(std::memory_order_acquire)) {
    pollfd wake{.fd = wake_.get(), .events = POLLIN, .revents = 0};
    ::poll(&wake, 1, -1);
    take_wake();
  }
  return !stop_.load(std::memory_order_acquire);
}

void Middle::rest() {
  const IdleBackOff::Act act = idle_.next();
  if (act == IdleBackOff::Act::Spin) return;
  if (act == IdleBackOff::Act::Rest && !waits_) return sleep();
  ::sched_yield();
}

bool Middle::arm_bells() noexcept {
  bool armed = !deaf_.load(std::memory_order_relaxed);
  chains_.pass([&armed](Chain& chain) { armed &= chain.arm(); });
  return armed;
}

std::uint64_t Middle::sleep_ns() const noexcept {
  if (bells_ == Bells::Armed && at_rest_) return kRelayNapMaxNs;
  return std::clamp(slept_ns_ / kSleepShare, kNapMinNs, kRelayNapMaxNs);
}

// A completion that comes before its queue is armed does not ring: so all chains are turned once
// more between arming and sleeping.
void Middle::sleep() {
  if (bells_ == Bells::NotArmed) {
    bells_ = arm_bells() ? Bells::Armed : Bells::Mute;
    if (turn() != 0) return begin_anew();
  }
  const std::uint64_t ns = sleep_ns();
  slept_ns_ += ns;
  std::array<pollfd, 2> wakers{{{.fd = wake_.get(), .events = POLLIN, .revents = 0},
                                {.fd = ringing_.get(), .events = POLLIN, .revents = 0}}};
  const timespec timeout{.tv_sec = static_cast<time_t>(ns / kNsPerSecond),
                         .tv_nsec = static_cast<long>(ns % kNsPerSecond)};
  add_one(begun_);
  if (::ppoll(wakers.data(), wakers.size(), &timeout, nullptr) == 0) return add_one(timed_out_);
  if (wakers[0].revents != 0) take_wake();
  if (wakers[1].revents != 0) take_rings();
  begin_anew();
}

Middle::Sleeps Middle::sleeps() const noexcept {
  return {.begun = begun_.load(std::memory_order_relaxed),
          .rung = rung_.load(std::memory_order_relaxed),
          .timed_out = timed_out_.load(std::memory_order_relaxed)};
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

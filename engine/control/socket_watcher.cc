#include "engine/control/socket_watcher.h"

#include "src/base/check.h"
#include "src/base/fork_guard.h"
#include "src/base/log.h"

#include <cerrno>
#include <system_error>

#include <sys/eventfd.h>

namespace mesh::engine {

Status SocketWatcher::open() {
  epoll_ = UniqueFd(::epoll_create1(EPOLL_CLOEXEC));
  event_ = UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!epoll_.valid() || !event_.valid()) {
    LOG_WARN("control: cannot create epoll or eventfd: {}", std::generic_category().message(errno));
    return Errc::System;
  }
  fork_close_fd(epoll_.get());
  fork_close_fd(event_.get());
  return watch(event_.get(), kWakeKey, EPOLLIN);
}

Status SocketWatcher::watch(int fd, std::uint64_t key, std::uint32_t events) {
  DCHECK(fd >= 0 && (key == kWakeKey) == (fd == event_.get()));
  epoll_event event{};
  event.events = events;
  event.data.u64 = key;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0) return {};
  LOG_WARN("control: cannot watch a socket: {}", std::generic_category().message(errno));
  return Errc::System;
}

bool SocketWatcher::change(int fd, std::uint64_t key, std::uint32_t events) noexcept {
  DCHECK(fd >= 0 && key != kWakeKey);
  epoll_event event{};
  event.events = events;
  event.data.u64 = key;
  return ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event) == 0;
}

void SocketWatcher::forget(int fd) noexcept {
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
}

std::span<epoll_event> SocketWatcher::ready(std::span<epoll_event> room) noexcept {
  DCHECK(!room.empty());
  const int count = ::epoll_wait(epoll_.get(), room.data(), static_cast<int>(room.size()), 0);
  return count > 0 ? room.first(static_cast<std::size_t>(count)) : std::span<epoll_event>{};
}

void SocketWatcher::wait(int timeout_ms) noexcept {
  epoll_event event{};
  ::epoll_wait(epoll_.get(), &event, 1, timeout_ms);
}

void SocketWatcher::wake() noexcept {
  if (!woken_.exchange(true, std::memory_order_acq_rel)) ::eventfd_write(event_.get(), 1);
}

void SocketWatcher::wake_taken() noexcept {
  // The eventfd is emptied before the flag is cleared. In the other order a wake between the two
  // steps would be lost, and the flag would stay set for good.
  eventfd_t count = 0;
  ::eventfd_read(event_.get(), &count);
  woken_.exchange(false, std::memory_order_acq_rel);
}

}  // namespace mesh::engine

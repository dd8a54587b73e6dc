#include "engine/control/control_listener.h"

#include "src/base/check.h"
#include "src/base/fork_guard.h"
#include "src/base/log.h"
#include "src/base/version.h"

#include <sys/eventfd.h>

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

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

namespace {

bool is_scoped(const SocketAddress& address) {
  return address.family == AF_INET6 && address.link_local();
}

// Returns the addresses of the first interface's family only, as NCCL's own bootstrap does.
std::vector<InterfaceAddress> same_family(const std::vector<InterfaceAddress>& found) {
  std::vector<InterfaceAddress> chosen;
  for (const InterfaceAddress& each : found) {
    if (each.address.family != found.front().address.family) continue;
    const auto same = [&each](const InterfaceAddress& other) {
      return other.address == each.address;
    };
    if (std::any_of(chosen.begin(), chosen.end(), same)) continue;
    if (chosen.size() < kListenAddressesMax) chosen.push_back(each);
  }
  return chosen;
}

std::vector<std::uint32_t> scopes(std::span<const SocketAddress> listening) {
  std::vector<std::uint32_t> found;
  const auto note = [&found](const SocketAddress& address) {
    const bool known = std::find(found.begin(), found.end(), address.scope_id) != found.end();
    if (is_scoped(address) && !known && found.size() < kScopesMax)
      found.push_back(address.scope_id);
  };
  for (const SocketAddress& address : listening) note(address);
  if (!found.empty()) return found;
  for (const InterfaceAddress& each : all_interfaces()) note(each.address);
  return found;
}

}  // namespace

Result<ControlListener> open_listener(const ControlPlaneOptions& options) {
  const std::vector<InterfaceAddress> found =
      interfaces({options.socket_ifname, options.socket_family});
  if (found.empty()) {
    LOG_WARN(
        "control: no network interface is up that fits NCCL_SOCKET_IFNAME={} NCCL_SOCKET_FAMILY={}",
        options.socket_ifname.empty() ? "(unset)" : options.socket_ifname,
        options.socket_family.empty() ? "(unset)" : options.socket_family);
    return Errc::System;  // NotFound would say that there is no rail
  }
  // On all of them: control that loses one network goes on over another one.
  return listen_on(same_family(found));
}

std::vector<SocketAddress> with_scopes(std::span<const SocketAddress> addresses,
                                       std::span<const SocketAddress> listening) {
  std::vector<SocketAddress> all;
  for (const SocketAddress& address : addresses) {
    if (!is_scoped(address) || address.scope_id != 0) {
      all.push_back(address);
      continue;
    }
    for (const std::uint32_t scope : scopes(listening)) {
      all.push_back(address);
      all.back().scope_id = scope;
    }
  }
  return all;
}

Result<ControlListener> listen_on(std::span<const InterfaceAddress> interfaces) {
  ControlListener listener;
  std::vector<std::string> told;
  for (const InterfaceAddress& each : interfaces) {
    Result<UniqueFd> fd = tcp_listen(each.address, listener.port);
    const Result<std::uint16_t> port =
        fd.ok() ? local_port(fd->get()) : Result<std::uint16_t>(fd.status());
    if (!port.ok()) {
      LOG_WARN("control: cannot listen on {} ({}): {}", each.address.text_with_port(listener.port),
               each.name, std::generic_category().message(errno));
      continue;
    }
    listener.port = *port;
    told.push_back(fmt::format("{} ({})", each.address.text_with_port(listener.port), each.name));
    listener.fds.push_back(std::move(*fd));
    listener.addresses.push_back(each.address);
  }
  if (listener.fds.empty()) return Errc::System;
  DCHECK(listener.fds.size() == listener.addresses.size() && listener.port != 0);
  LOG_INFO("nccl-mesh {}: handshakes on {}", version(), fmt::join(told, ", "));
  return listener;
}

}  // namespace mesh::engine

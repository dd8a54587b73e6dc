#include "src/base/socket.h"

#include "src/base/clock.h"
#include "src/base/fork_guard.h"
#include "src/base/log.h"
#include "src/base/log_budget.h"
#include "src/base/timeouts.h"

#include <cerrno>
#include <cstring>
#include <optional>
#include <string>

#include <netinet/in.h>
#include <netinet/tcp.h>

namespace mesh {

namespace {
// The kernel's own usual bound. A connection that does not fit waits a second for its next SYN.
constexpr int kListenBacklog = 4096;
constexpr int kKeepAliveProbes = 3;  // 5 + 3 * 5 are 20 s
static_assert(kSilenceToKeepAliveSeconds * (1 + kKeepAliveProbes) * 1000 == kSilenceToDeadHostMs);

// An unauthenticated peer can make us open as many sockets as it likes.
constinit SharedLogBudget g_lines;

UniqueFd adopt(int fd) {
  if (fd < 0 || fork_close_fd(fd)) return UniqueFd(fd);
  if (const std::optional<std::string> rest = g_lines.take(Clock().now_ns())) {
    LOG_WARN(
        "socket {} is above {}: a forked child keeps it open and hides our death from the peer{}",
        fd, kForkFdsMax - 1, *rest);
  }
  return UniqueFd(fd);
}

void set_option(int fd, int level, int name, int value) {
  if (::setsockopt(fd, level, name, &value, sizeof value) == 0) return;
  const int error = errno;
  if (const std::optional<std::string> rest = g_lines.take(Clock().now_ns())) {
    LOG_DETAIL("socket {}: option {} of level {} refused ({}){}", fd, name, level,
               std::strerror(error), *rest);
  }
}

void set_stream_options(int fd) {
  set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, kSilenceToKeepAliveSeconds);
  set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, kSilenceToKeepAliveSeconds);
  set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, kKeepAliveProbes);
  set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, kSilenceToDeadHostMs);
}

Result<UniqueFd> tcp_socket(std::uint16_t family) {
  UniqueFd fd = adopt(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return Errc::System;
  return fd;
}

Errc connect_errc(int error) {
  switch (error) {
    case ECONNREFUSED:
    case ECONNRESET:
    case EHOSTUNREACH:
    case EHOSTDOWN:
    case ENETUNREACH:
    case ENETDOWN:
    case EADDRNOTAVAIL:
    case ETIMEDOUT: return Errc::Unreachable;
    case EINPROGRESS:
    case EALREADY: return Errc::WouldBlock;
    default: return Errc::System;
  }
}

std::uint16_t port_of(const sockaddr_storage& storage) {
  std::uint16_t port = 0;
  if (storage.ss_family == AF_INET) port = reinterpret_cast<const sockaddr_in&>(storage).sin_port;
  if (storage.ss_family == AF_INET6)
    port = reinterpret_cast<const sockaddr_in6&>(storage).sin6_port;
  return ntohs(port);
}
}  // namespace

Result<UniqueFd> tcp_listen(const SocketAddress& address, std::uint16_t port) {
  sockaddr_storage storage{};
  const socklen_t size = address.to_sockaddr(port, storage);
  if (size == 0) return Errc::InvalidArgument;
  Result<UniqueFd> fd = tcp_socket(address.family);
  if (!fd.ok()) return fd;
  if (port != 0) set_option(fd->get(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (::bind(fd->get(), reinterpret_cast<const sockaddr*>(&storage), size) != 0)
    return Errc::System;
  if (::listen(fd->get(), kListenBacklog) != 0) return Errc::System;
  return fd;
}

Result<std::uint16_t> local_port(int fd) {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&storage), &size) != 0) return Errc::System;
  return port_of(storage);
}

Result<UniqueFd> tcp_connect_start(const SocketAddress& address, std::uint16_t port) {
  sockaddr_storage storage{};
  const socklen_t size = address.to_sockaddr(port, storage);
  if (size == 0) return Errc::InvalidArgument;
  Result<UniqueFd> fd = tcp_socket(address.family);
  if (!fd.ok()) return fd;
  set_stream_options(fd->get());
  // An interrupted connect goes on in the background (connect(2)).
  if (::connect(fd->get(), reinterpret_cast<const sockaddr*>(&storage), size) == 0 ||
      errno == EINPROGRESS || errno == EINTR)
    return fd;
  const int error = errno;
  fd->reset();
  errno = error;
  return connect_errc(error);
}

Status tcp_connect_result(int fd) {
  int error = 0;
  socklen_t size = sizeof error;
  if (::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0) return Errc::System;
  if (error != 0) {
    errno = error;
    return connect_errc(error);
  }
  // Without an error the connect may still be under way: only a connected socket has a peer.
  sockaddr_storage storage{};
  size = sizeof storage;
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&storage), &size) == 0) return {};
  return errno == ENOTCONN ? Errc::WouldBlock : Errc::System;
}

Result<AcceptedSocket> tcp_accept(int listener) {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  AcceptedSocket accepted;
  accepted.fd = adopt(::accept4(listener, reinterpret_cast<sockaddr*>(&storage), &size,
                                SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!accepted.fd.valid()) {
    // Pending network errors of the new socket must be treated like EAGAIN (accept(2)).
    const bool later = errno == EAGAIN || errno == EINTR || errno == ECONNABORTED ||
                       errno == EPROTO || connect_errc(errno) == Errc::Unreachable;
    return later ? Errc::WouldBlock : Errc::System;
  }
  set_stream_options(accepted.fd.get());
  accepted.peer = SocketAddress::from_sockaddr(reinterpret_cast<const sockaddr*>(&storage));
  accepted.peer_port = port_of(storage);
  return accepted;
}

}  // namespace mesh

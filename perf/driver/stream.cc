#include "perf/driver/stream.h"

#include "src/base/socket.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <thread>

namespace mesh::driver {
namespace {

using Clock = std::chrono::steady_clock;
using AddressList = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

// The limit of one try: a host out of reach answers nothing, and the next try may find it up.
constexpr std::chrono::seconds kOneTry{3};
// The pauses between two tries: nothing tells us when rank 0 starts, or when its name appears. A
// name server is asked less often.
constexpr std::chrono::milliseconds kConnectPause{20};
constexpr std::chrono::milliseconds kNamePause{200};

struct HostAndPort {
  std::string host, port;
};

HostAndPort split(const std::string& address) {
  const std::size_t colon = address.rfind(':');
  if (colon == std::string::npos) return {};
  std::string host = address.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']')
    host = host.substr(1, host.size() - 2);
  return {std::move(host), address.substr(colon + 1)};
}

AddressList resolve(const HostAndPort& address, int flags, int* error = nullptr) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* found = nullptr;
  const char* host = address.host.empty() ? nullptr : address.host.c_str();
  const int code = address.port.empty() ? EAI_SERVICE
                                        : ::getaddrinfo(host, address.port.c_str(), &hints, &found);
  if (error != nullptr) *error = code;
  return {code == 0 ? found : nullptr, &::freeaddrinfo};
}

// Returns true if the name may be known soon: a cluster makes the names of its hosts as these
// start, so that a name is unknown, has no address or gets no answer at first.
bool may_appear(int error) {
  return error == EAI_AGAIN || error == EAI_NONAME || error == EAI_NODATA;
}

// Makes the socket send at once, and notice within about half a minute that the other host has
// died.
void set_options(int socket) {
  const auto set = [&](int level, int option, int value) {
    ::setsockopt(socket, level, option, &value, sizeof(value));
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 10);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set(IPPROTO_TCP, TCP_KEEPCNT, 4);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, 30'000);
}

// Returns true if the socket has met itself, as an ephemeral port can while nobody listens there.
bool connected_to_itself(int socket) {
  sockaddr_storage own{}, other{};
  socklen_t own_length = sizeof(own), other_length = sizeof(other);
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&own), &own_length) != 0) return true;
  if (::getpeername(socket, reinterpret_cast<sockaddr*>(&other), &other_length) != 0) return true;
  return own_length == other_length && std::memcmp(&own, &other, own_length) == 0;
}

UniqueFd try_connect(const addrinfo& at, Deadline deadline) {
  UniqueFd socket(::socket(at.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.valid()) return {};
  if (::connect(socket.get(), at.ai_addr, at.ai_addrlen) != 0) {
    const Deadline end = std::min(deadline, Clock::now() + kOneTry);
    if (errno != EINPROGRESS || !wait_for(socket.get(), POLLOUT, end).ok()) return {};
    if (!tcp_connect_result(socket.get()).ok()) return {};
  }
  if (connected_to_itself(socket.get())) return {};
  set_options(socket.get());
  return socket;
}

Status send_bytes(int socket, std::string_view bytes, Deadline deadline) {
  while (!bytes.empty()) {
    const Status ready = wait_for(socket, POLLOUT, deadline);
    if (!ready.ok()) return ready;
    const ssize_t sent = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (sent <= 0) return Errc::PeerGone;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return {};
}

Status receive_bytes(int socket, char* data, std::size_t bytes, Deadline deadline) {
  while (bytes != 0) {
    const Status ready = wait_for(socket, POLLIN, deadline);
    if (!ready.ok()) return ready;
    const ssize_t got = ::recv(socket, data, bytes, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (got <= 0) return Errc::PeerGone;
    data += got;
    bytes -= static_cast<std::size_t>(got);
  }
  return {};
}

Result<UniqueFd> listen_on(const HostAndPort& where) {
  const AddressList list = resolve(where, AI_NUMERICSERV);
  int error = EADDRNOTAVAIL;
  for (const addrinfo* at = list.get(); at != nullptr; at = at->ai_next) {
    UniqueFd socket(::socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const int on = 1, off = 0;
    ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (at->ai_family == AF_INET6)
      ::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
    if (::bind(socket.get(), at->ai_addr, at->ai_addrlen) == 0 &&
        ::listen(socket.get(), SOMAXCONN) == 0)
      return socket;
    error = errno;
  }
  errno = error;
  return Errc::System;
}

}  // namespace

Status wait_for(int fd, short events, Deadline deadline) {
  pollfd entry{fd, events, 0};
  return wait_for_any({&entry, 1}, deadline);
}

Status wait_for_any(std::span<pollfd> entries, Deadline deadline) {
  for (;;) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return Errc::Timeout;
    const int ready =
        ::poll(entries.data(), entries.size(), static_cast<int>(std::min<long>(left, 60'000)));
    if (ready > 0) return {};
    if (ready < 0 && errno != EINTR) return Errc::System;
  }
}

Status send_message(int socket, std::string_view text, Deadline deadline) {
  const auto length = static_cast<std::uint32_t>(text.size());
  const char* const head = reinterpret_cast<const char*>(&length);
  const Status sent = send_bytes(socket, {head, sizeof(length)}, deadline);
  return sent.ok() ? send_bytes(socket, text, deadline) : sent;
}

Result<std::string> receive_message(int socket, std::uint32_t bytes_max, Deadline deadline) {
  std::uint32_t length = 0;
  Status got = receive_bytes(socket, reinterpret_cast<char*>(&length), sizeof(length), deadline);
  if (!got.ok()) return got;
  if (length > bytes_max) return Errc::Protocol;
  std::string text(length, '\0');
  got = receive_bytes(socket, text.data(), text.size(), deadline);
  return got.ok() ? Result<std::string>(std::move(text)) : got;
}

Result<UniqueFd> listen_at(const std::string& address) {
  HostAndPort where = split(address);
  if (where.host == "localhost" || resolve(where, AI_NUMERICHOST) != nullptr)
    return listen_on(where);
  if (resolve(where, 0) == nullptr) return Errc::NotFound;
  // Many hosts know their own name as 127.0.1.1, where no other host reaches them. So with a name
  // we listen on every address.
  where.host = "::";
  auto every = listen_on(where);
  where.host = "0.0.0.0";
  return every.ok() ? std::move(every) : listen_on(where);
}

// Returns null if there is no such name.
static AddressList resolve_until(Deadline deadline, const HostAndPort& where) {
  for (;;) {
    int error = 0;
    AddressList list = resolve(where, 0, &error);
    if (list != nullptr || !may_appear(error) || Clock::now() >= deadline) return list;
    std::this_thread::sleep_until(std::min(deadline, Clock::now() + kNamePause));
  }
}

Result<UniqueFd> connect_to(const std::string& address, Deadline deadline) {
  const AddressList list = resolve_until(deadline, split(address));
  if (list == nullptr) return Errc::NotFound;
  while (Clock::now() < deadline) {
    for (const addrinfo* at = list.get(); at != nullptr; at = at->ai_next) {
      UniqueFd socket = try_connect(*at, deadline);
      if (socket.valid()) return socket;
    }
    std::this_thread::sleep_for(kConnectPause);
  }
  return Errc::Timeout;
}

Result<UniqueFd> accept_one(int listening, Deadline deadline) {
  const Status ready = wait_for(listening, POLLIN, deadline);
  if (!ready.ok()) return ready;
  UniqueFd socket(::accept4(listening, nullptr, nullptr, SOCK_CLOEXEC));
  if (!socket.valid()) return Errc::System;
  set_options(socket.get());
  return socket;
}

}  // namespace mesh::driver

#include "perf/driver/stream.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <thread>

namespace mesh::driver {
namespace {

using AddressList = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

AddressList resolve(const std::string& address) {
  const std::size_t colon = address.rfind(':');
  AddressList none(nullptr, &::freeaddrinfo);
  if (colon == std::string::npos) return none;
  std::string host = address.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), address.c_str() + colon + 1, &hints, &found) != 0) return none;
  return {found, &::freeaddrinfo};
}

void send_at_once(int socket) {
  const int on = 1;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
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

}  // namespace

Status wait_for(int fd, short events, Deadline deadline) {
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now()).count();
    if (left <= 0) return Errc::Timeout;
    pollfd entry{fd, events, 0};
    const int ready = ::poll(&entry, 1, static_cast<int>(std::min<long>(left, 60'000)));
    if (ready > 0) return {};
    if (ready < 0 && errno != EINTR) return Errc::System;
  }
}

Status send_message(int socket, std::string_view text, Deadline deadline) {
  const auto length = static_cast<std::uint32_t>(text.size());
  char head[sizeof(length)];
  std::memcpy(head, &length, sizeof(length));
  const Status sent = send_bytes(socket, {head, sizeof(head)}, deadline);
  return sent.ok() ? send_bytes(socket, text, deadline) : sent;
}

Result<std::string> receive_message(int socket, std::uint32_t bytes_max, Deadline deadline) {
  std::uint32_t length = 0;
  Status got = receive_bytes(socket, reinterpret_cast<char*>(&length), sizeof(length), deadline);
  if (!got.ok()) return got;
  if (length > bytes_max) return Errc::Protocol;
  std::string text(length, '\0');
  got = receive_bytes(socket, text.data(), text.size(), deadline);
  if (!got.ok()) return got;
  return text;
}

Result<UniqueFd> listen_at(const std::string& address) {
  const AddressList list = resolve(address);
  for (const addrinfo* at = list.get(); at != nullptr; at = at->ai_next) {
    UniqueFd socket(::socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const int on = 1;
    ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (::bind(socket.get(), at->ai_addr, at->ai_addrlen) == 0 && ::listen(socket.get(), SOMAXCONN) == 0) return socket;
  }
  return Errc::System;
}

Result<UniqueFd> connect_to(const std::string& address, Deadline deadline) {
  const AddressList list = resolve(address);
  if (list == nullptr) return Errc::NotFound;
  while (std::chrono::steady_clock::now() < deadline) {
    for (const addrinfo* at = list.get(); at != nullptr; at = at->ai_next) {
      UniqueFd socket(::socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
      if (::connect(socket.get(), at->ai_addr, at->ai_addrlen) != 0) continue;
      send_at_once(socket.get());
      return socket;
    }
    // Rank 0 may not have started yet; nothing tells us when it does.
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return Errc::Timeout;
}

Result<UniqueFd> accept_one(int listening, Deadline deadline) {
  const Status ready = wait_for(listening, POLLIN, deadline);
  if (!ready.ok()) return ready;
  UniqueFd socket(::accept4(listening, nullptr, nullptr, SOCK_CLOEXEC));
  if (!socket.valid()) return Errc::System;
  send_at_once(socket.get());
  return socket;
}

}  // namespace mesh::driver

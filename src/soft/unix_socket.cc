#include "src/soft/unix_socket.h"

#include "src/base/check.h"
#include "src/base/fork_guard.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace mesh::soft {

namespace {

constexpr int kBacklog = 1024;

UniqueFd make_socket() {
  UniqueFd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (fd.valid()) fork_close_fd(fd.get());
  return fd;
}

// Fills in an abstract name, which begins with a zero byte and is not terminated.
socklen_t fill_address(const std::string& name, sockaddr_un* address) {
  *address = sockaddr_un{};
  address->sun_family = AF_UNIX;
  const std::size_t bytes = std::min(name.size(), sizeof address->sun_path - 1);
  std::memcpy(address->sun_path + 1, name.data(), bytes);
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + bytes);
}

union ControlBuffer {
  cmsghdr header;
  char bytes[CMSG_SPACE(sizeof(int) * kMessageFdsMax)];
};

}  // namespace

UniqueFd listen_abstract(const std::string& name) {
  UniqueFd fd = make_socket();
  sockaddr_un address;
  const socklen_t bytes = fill_address(name, &address);
  if (!fd.valid() || ::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), bytes) != 0 ||
      ::listen(fd.get(), kBacklog) != 0) {
    const int error = errno;
    fd.reset();
    errno = error;
  }
  return fd;
}

UniqueFd connect_abstract(const std::string& name) {
  UniqueFd fd = make_socket();
  sockaddr_un address;
  const socklen_t bytes = fill_address(name, &address);
  if (!fd.valid() || ::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), bytes) != 0) {
    const int error = errno;
    fd.reset();
    errno = error;
  }
  return fd;
}

UniqueFd accept_connection(int listener) {
  UniqueFd fd(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (fd.valid()) fork_close_fd(fd.get());
  return fd;
}

Io send_message(int fd, std::span<const std::byte> bytes, std::span<const int> fds) {
  CHECK(fds.size() <= kMessageFdsMax);  // the control buffer has room for no more
  iovec data{const_cast<std::byte*>(bytes.data()), bytes.size()};
  ControlBuffer control{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  if (!fds.empty()) {
    message.msg_control = control.bytes;
    message.msg_controllen = CMSG_SPACE(sizeof(int) * fds.size());
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int) * fds.size());
    std::memcpy(CMSG_DATA(header), fds.data(), sizeof(int) * fds.size());
  }
  ssize_t sent;
  do {
    sent = ::sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (sent < 0 && errno == EINTR);
  if (sent >= 0) return Io::Done;
  // ETOOMANYREFS means that the process does not take the descriptors in flight, so we wait.
  return errno == EAGAIN || errno == ENOBUFS || errno == ETOOMANYREFS ? Io::Again : Io::Closed;
}

Io receive_message(int fd, std::span<std::byte> buffer, Received* out) {
  iovec data{buffer.data(), buffer.size()};
  ControlBuffer control{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes;
  message.msg_controllen = sizeof control.bytes;
  ssize_t got;
  do {
    got = ::recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  if (got < 0) return errno == EAGAIN ? Io::Again : Io::Closed;
  *out = Received{};
  std::size_t found = 0;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int received;
      std::memcpy(&received, CMSG_DATA(header) + i * sizeof(int), sizeof received);
      UniqueFd owned(received);
      fork_close_fd(received);
      if (found < kMessageFdsMax) out->fds[found++] = std::move(owned);
    }
  }
  out->bytes = static_cast<std::size_t>(got);
  out->fds_lost = (message.msg_flags & MSG_CTRUNC) != 0;
  return got == 0 ? Io::Closed : Io::Done;
}

namespace {
bool wait_for(int fd, short events) {
  pollfd waiting{fd, events, 0};
  int ready;
  do {
    ready = ::poll(&waiting, 1, kAnswerMs);
  } while (ready < 0 && errno == EINTR);
  return ready == 1;
}
}  // namespace

Io ask(int fd, std::span<const std::byte> question, std::span<std::byte> buffer, Received* answer) {
  if (!wait_for(fd, POLLOUT)) return Io::Again;
  const Io sent = send_message(fd, question, {});
  if (sent != Io::Done) return sent;
  return wait_for(fd, POLLIN) ? receive_message(fd, buffer, answer) : Io::Again;
}

Credentials credentials_of(int fd) {
  ucred cred{};
  socklen_t bytes = sizeof cred;
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &bytes) != 0) return {};
  return {cred.pid, cred.uid};
}

}  // namespace mesh::soft

#pragma once
// Abstract unix sockets that carry small messages with file descriptors. Only ask() waits. Thread:
// any. Bounds: kMessageBytesMax, kMessageFdsMax.

#include "src/base/unique_fd.h"

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <span>
#include <string>

namespace mesh::soft {

inline constexpr std::size_t kMessageFdsMax = 4;

enum class Io : unsigned char { Done, Again, Closed };

struct Received {
  std::size_t bytes = 0;
  std::array<UniqueFd, kMessageFdsMax> fds;
  bool fds_lost = false;  // more were sent than this process could take
};

// Listens. Returns an invalid descriptor with errno on failure; EADDRINUSE: another socket has the
// name.
UniqueFd listen_abstract(const std::string& name);
// Connects. Returns an invalid descriptor with errno on failure; ECONNREFUSED: no socket has the
// name.
UniqueFd connect_abstract(const std::string& name);
UniqueFd accept_connection(int listener);

Io send_message(int fd, std::span<const std::byte> bytes, std::span<const int> fds);
Io receive_message(int fd, std::span<std::byte> buffer, Received* out);
// Sends a message and waits for the answer, kAnswerMs each. Returns Again if that is not enough.
Io ask(int fd, std::span<const std::byte> question, std::span<std::byte> buffer, Received* answer);
inline constexpr int kAnswerMs = 5000;

struct Credentials {
  pid_t pid = 0;
  uid_t uid = static_cast<uid_t>(-1);
};
Credentials credentials_of(int fd);

}  // namespace mesh::soft

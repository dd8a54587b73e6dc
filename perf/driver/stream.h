#pragma once
// Whole messages over a TCP socket with a deadline: the bootstrap's own plumbing.
// Thread: any (values and one owner per socket).

#include <mesh/status.h>

#include <poll.h>

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "src/base/unique_fd.h"

namespace mesh::driver {

using Deadline = std::chrono::steady_clock::time_point;

Status send_message(int socket, std::string_view text, Deadline deadline);  // length first
Result<std::string> receive_message(int socket, std::uint32_t bytes_max, Deadline deadline);
Status wait_for(int fd, short events, Deadline deadline);  // Timeout when it does not come
Status wait_for_any(std::span<pollfd> entries, Deadline deadline);

// Listens at "host:port" or "[v6]:port". With a name it listens on every address. Returns NotFound
// if nobody knows the name; System: errno says why.
Result<UniqueFd> listen_at(const std::string& address);
// Tries until the deadline, whatever fails, also with a name that nobody knows yet (NotFound in the
// end). Fails at once if the port is none.
Result<UniqueFd> connect_to(const std::string& address, Deadline deadline);
Result<UniqueFd> accept_one(int listening, Deadline deadline);

}  // namespace mesh::driver

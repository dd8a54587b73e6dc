#include "src/soft/host_state.h"

#include "src/base/clock.h"
#include "src/base/fork_guard.h"
#include "src/base/log.h"
#include "src/soft/rendezvous_wire.h"
#include "src/soft/unix_socket.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

namespace mesh::soft {

namespace {
constexpr int kNoSlot = -1;  // the name of the place of birth
constexpr int kBirthPauseMs = 1;

// Asks the process at the other end for the host's state. Returns NotFound if it is gone, and
// System with errno if it cannot be had.
Status ask_for_state(int fd, std::shared_ptr<HostState>* out) {
  std::array<std::byte, kMessageBytesMax> buffer{};
  Received received;
  const Io asked = ask(fd, bytes_of(Prefix{.type = kJoin}), buffer, &received);
  if (asked == Io::Closed) return Errc::NotFound;
  if (asked == Io::Again) errno = ETIMEDOUT;
  if (received.fds_lost) errno = EMFILE;
  if (asked != Io::Done || !received.fds[0].valid()) return Errc::System;
  auto state = HostState::map(std::move(received.fds[0]));
  if (state.ok()) *out = std::move(*state);
  return state.status();
}
}  // namespace

// The memory is zeroed, and constructing the table makes its mutex.
Result<std::shared_ptr<HostState>> HostState::create(Sharing sharing) {
  Result<Segment> segment = Segment::create(sizeof(HostMemory), sharing);
  if (!segment.ok()) return segment.status();
  new (segment->data()) HostMemory;
  UniqueFd fd = segment->take_fd();
  return std::shared_ptr<HostState>(new HostState(std::move(*segment), std::move(fd)));
}

Result<std::shared_ptr<HostState>> HostState::map(UniqueFd fd) {
  UniqueFd own(::fcntl(fd.get(), F_DUPFD_CLOEXEC, 0));
  if (!own.valid()) return Errc::System;
  fork_close_fd(own.get());
  Result<std::shared_ptr<HostState>> state = map_peers(std::move(fd));
  if (state.ok()) (*state)->fd_ = std::move(own);
  return state;
}

Result<std::shared_ptr<HostState>> HostState::map_peers(UniqueFd fd) {
  Result<Segment> segment = Segment::map(std::move(fd), sizeof(HostMemory));
  if (!segment.ok()) return segment.status();
  return std::shared_ptr<HostState>(new HostState(std::move(*segment), {}));
}

void HostMemory::set_slots(const HostSpec& host) noexcept {
  for (std::size_t i = 0; i < host.slots.size(); ++i)
    slots[i].ticks_per_byte = ticks_per_byte(host.slots[i].gbps);
  for (std::size_t i = 0; i < host.nics.size(); ++i)
    places[i] = static_cast<std::uint8_t>(host.nics[i].slot + 1);
}

HostState::HostState(Segment segment, UniqueFd fd)
    : segment_(std::move(segment)), fd_(std::move(fd)) {}

// A forked child closes its place, too, though its UniqueFds close nothing.
HostBirth::~HostBirth() {
  const int fd = place_.release();
  if (fd < 0) return;
  fork_forget_fd(fd);
  ::close(fd);
}

Status HostBirth::begin(const std::string& universe, const std::string& host) {
  const Clock clock;
  const std::uint64_t give_up_ns = clock.now_ns() + std::uint64_t{kBirthMs} * kNsPerMs;
  for (;;) {
    place_ = listen_abstract(rendezvous_name(universe, host, kNoSlot));
    if (place_.valid()) return Errc::Ok;
    const int error = errno;
    if (error != EADDRINUSE || clock.now_ns() > give_up_ns) {
      LOG_WARN("soft fabric: host {} cannot be claimed: {}", host,
               error == EADDRINUSE ? "another process has been claiming it for too long"
                                   : std::strerror(error));
      return Errc::System;
    }
    ::poll(nullptr, 0, kBirthPauseMs);
  }
}

Status HostBirth::find_state(const std::string& universe, const std::string& host,
                             std::shared_ptr<HostState>* state) {
  for (int slot = 0; slot < kSlotsMax && *state == nullptr; ++slot) {
    const UniqueFd fd = connect_abstract(rendezvous_name(universe, host, slot));
    if (!fd.valid() && errno == ECONNREFUSED) continue;
    const Credentials who = fd.valid() ? credentials_of(fd.get()) : Credentials{};
    if (fd.valid() && who.uid != ::geteuid()) continue;  // binding the name says who it is
    const Status asked = fd.valid() ? ask_for_state(fd.get(), state) : Errc::System;
    if (asked.ok() || asked == Errc::NotFound) continue;
    LOG_WARN("soft fabric: host {} cannot be shared with process {}: {}", host, who.pid,
             std::strerror(errno));
    return Errc::System;
  }
  return Errc::Ok;
}

}  // namespace mesh::soft

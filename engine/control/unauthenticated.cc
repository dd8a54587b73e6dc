// Unauthenticated connections and deadlines of the control plane: accepts unauthenticated
// connections, drops them, ends what is late.

#include "engine/control/control_plane_impl.h"
#include "src/base/check.h"
#include "src/base/log.h"
#include "src/base/timeouts.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <exception>
#include <span>
#include <system_error>
#include <utility>

#include <poll.h>

namespace mesh::engine {

namespace {

bool somebody_waits(int listener) {
  pollfd waiting{.fd = listener, .events = POLLIN, .revents = 0};
  return ::poll(&waiting, 1, 0) != 0;  // after a failed poll the caller looks itself
}

}  // namespace

bool Plane::accept_connections() {
  bool active = false;
  for (const UniqueFd& fd : listener_.fds) active = accept_from(fd.get()) || active;
  return active;
}

bool Plane::accept_from(int listener) {
  bool active = false;
  for (int i = 0; i < kAcceptsPerPass; ++i) {
    if (accept_again_ns_ != kNever) return active;  // accepting was paused earlier in this pass
    // An unauthenticated connection gives way only if another connection waits.
    if (crowded() && (!somebody_waits(listener) || !make_room())) return active;
    Result<AcceptedSocket> accepted = tcp_accept(listener);
    if (accepted.code() == Errc::WouldBlock) return active;
    if (!accepted.ok()) {
      const int error = errno;
      if (error == EMFILE || error == ENFILE) {
        // accept(2) looks for a descriptor before it looks for a connection.
        if (!somebody_waits(listener)) return active;
        if (!unauthenticated_.empty()) {
          dismiss_oldest();
          continue;
        }
      }
      if (!accept_failed_ && accept_lines_.take(clock_.now_ns())) {
        LOG_WARN("control: cannot accept connections: {}{}", std::generic_category().message(error),
                 accept_lines_.rest());
      }
      accept_failed_ = true;
      // The socket stays readable, so looking again at once would spin.
      pause_accepting(clock_.now_ns() + kNoDescriptorToRetryNs);
      return active;
    }
    accept_failed_ = false;
    adopt(std::move(*accepted));
    active = true;
  }
  return active;
}

// Drops the oldest unauthenticated connection for the next one, but not before it had a fair chance
// to speak. A burst of honest peers is accepted faster than it is read; the rest of it waits in the
// kernel's backlog.
bool Plane::make_room() {
  DCHECK(crowded() && !unauthenticated_.empty());
  const ConnectionId oldest = *unauthenticated_.begin();
  if (find(oldest)->state == ConnectionState::Up) read_frame(oldest);
  if (!crowded()) return true;
  const std::uint64_t due_ns = find(*unauthenticated_.begin())->accepted_ns + kAcceptToGiveWayNs;
  if (clock_.now_ns() < due_ns) {
    pause_accepting(due_ns);
    return false;
  }
  dismiss_oldest();
  return true;
}

// Drops the oldest unauthenticated connection, unless its first words have arrived.
void Plane::dismiss_oldest() {
  DCHECK(!unauthenticated_.empty());
  const ConnectionId oldest = *unauthenticated_.begin();
  if (find(oldest)->state == ConnectionState::Up) read_frame(oldest);
  if (!unauthenticated_.contains(oldest)) return;
  const Connection& still = *find(oldest);
  if (still.state == ConnectionState::Closing) {
    erase(still.id);
  } else {
    lose(still.id, named(still, {Errc::Exhausted,
                                 fmt::format("oldest of {}, had sent {}", unauthenticated_.size(),
                                             still.reader.describe())}));
  }
}

void Plane::adopt(AcceptedSocket accepted) {
  Connection& connection = add();
  const ConnectionId id = connection.id;
  try {
    welcome(connection, std::move(accepted));
  } catch (const std::exception&) {
    erase(id);  // the peer dials again
  }
}

void Plane::welcome(Connection& connection, AcceptedSocket accepted) {
  DCHECK(!crowded() && accepted.fd.valid());
  const std::uint64_t now_ns = clock_.now_ns();
  connection.fd = std::move(accepted.fd);
  connection.peer = accepted.peer;
  connection.name = accepted.peer.text_with_port(accepted.peer_port);
  connection.accepted_ns = now_ns;
  connection.first_frame_deadline_ns = now_ns + kAcceptToFirstFrameNs;
  connection.watched = EPOLLIN;
  unauthenticated_.insert(connection.id);
  note_deadline(connection.first_frame_deadline_ns);
  if (!watcher_.watch(connection.fd.get(), connection.id, EPOLLIN).ok()) erase(connection.id);
}

void Plane::forget_unauthenticated(ConnectionId id) {
  unauthenticated_.erase(id);
  if (!crowded() && !accept_failed_) resume_accepting();
}

void Plane::pause_accepting(std::uint64_t until_ns) {
  accept_again_ns_ = until_ns;
  for (const UniqueFd& fd : listener_.fds) watcher_.change(fd.get(), kListenerKey, 0);
  note_deadline(until_ns);
}

void Plane::resume_accepting() {
  if (accept_again_ns_ == kNever) return;
  bool watched = true;
  for (const UniqueFd& fd : listener_.fds)
    watched = watcher_.change(fd.get(), kListenerKey, EPOLLIN) && watched;
  accept_again_ns_ = watched ? kNever : clock_.now_ns() + kNoDescriptorToRetryNs;
  if (!watched) note_deadline(accept_again_ns_);
}

bool Plane::expire(std::uint64_t now_ns) {
  // Deadlines must expire without memory too, so one pass takes a fixed number, and the next pass
  // takes more.
  std::array<ConnectionId, kEventsPerPass> expired;
  std::size_t count = 0;
  const bool resumed = now_ns >= accept_again_ns_;
  if (resumed) resume_accepting();
  std::uint64_t next_ns = accept_again_ns_;
  for (const auto& [id, connection] : connections_) {
    if (now_ns >= connection->deadline_ns() && count < expired.size()) {
      expired[count++] = id;
    } else {
      next_ns = std::min(next_ns, connection->deadline_ns());
    }
  }
  next_deadline_ns_.store(next_ns, std::memory_order_release);
  const std::span<ConnectionId> due(expired.data(), count);
  std::sort(due.begin(), due.end());  // by age: runs on a manual clock must repeat exactly
  for (const ConnectionId id : due) {
    try {
      if (find(id) != nullptr) on_deadline(id);
    } catch (const std::exception&) {
      lose_for_memory(id);
    }
    if (const Connection* left = find(id); left != nullptr) note_deadline(left->deadline_ns());
  }
  return resumed || count != 0;
}

// Acts on a deadline. Our own process may have been stopped, so what has arrived meanwhile is read
// first.
void Plane::on_deadline(ConnectionId id) {
  Connection* connection = find(id);
  if (connection->loss) {
    lose(id, Loss(*connection->loss));
    return;
  }
  switch (connection->state) {
    case ConnectionState::Dialing: advance_dial(id); break;
    case ConnectionState::Closing: erase(id); return;
    case ConnectionState::Lost: return;
    case ConnectionState::Up: read_frame(id); break;
  }
  connection = find(id);
  const std::uint64_t now_ns = clock_.now_ns();
  if (connection == nullptr || now_ns < connection->deadline_ns() || connection->loss) return;
  if (connection->state == ConnectionState::Dialing) {
    if (!put_off_candidate(*connection))
      note_dial_failure(*connection, Errc::Timeout, "no answer (host down, or a firewall?)");
    start_dial(*connection);
  } else if (connection->state == ConnectionState::Up) {
    const std::uint64_t limit_ns =
        now_ns >= connection->first_frame_deadline_ns ? kAcceptToFirstFrameNs : kFrameBeginToEndNs;
    lose(id, named(*connection,
                   {Errc::Timeout, fmt::format("sent {} in {} s", connection->reader.describe(),
                                               limit_ns / kNsPerSecond)}));
  }
}

}  // namespace mesh::engine

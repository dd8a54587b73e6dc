#include "engine/control/control_plane.h"

#include "engine/control/control_plane_impl.h"
#include "src/base/check.h"
#include "src/base/log.h"
#include "src/base/timeouts.h"

#include <algorithm>
#include <array>
#include <exception>
#include <utility>

#include <sys/resource.h>

namespace mesh::engine {

namespace {

std::size_t unauthenticated_allowed() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return kUnauthenticatedMax;
  return std::clamp<rlim_t>(limit.rlim_cur / kUnauthenticatedShare, 1, kUnauthenticatedMax);
}

}  // namespace

Status Plane::open(const ControlPlaneOptions& options) {
  const OneAtATime::Call call(calls_);
  unauthenticated_max_ = unauthenticated_allowed();
  if (const Status status = watcher_.open(); !status.ok()) return status;
  Result<ControlListener> listener = open_listener(options);
  if (!listener.ok()) return listener.status();
  listener_ = std::move(*listener);
  for (const UniqueFd& fd : listener_.fds) {
    if (const Status status = watcher_.watch(fd.get(), kListenerKey, EPOLLIN); !status.ok())
      return status;
  }
  return {};
}

Connection* Plane::find(ConnectionId id) const {
  DCHECK(calls_.inside());
  const auto found = connections_.find(id);
  return found == connections_.end() ? nullptr : found->second.get();
}

Connection& Plane::add() {
  DCHECK(calls_.inside() && last_id_ + 1 < kForeignBit);
  auto connection = std::make_unique<Connection>();
  connection->id = ++last_id_;
  return *connections_.emplace(last_id_, std::move(connection)).first->second;
}

void Plane::erase(ConnectionId id) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  drop_socket(*found->second);
  connections_.erase(found);
  forget_unauthenticated(id);
}

void Plane::note_deadline(std::uint64_t deadline_ns) noexcept {
  if (deadline_ns >= next_deadline_ns_.load(std::memory_order_relaxed)) return;
  next_deadline_ns_.store(deadline_ns, std::memory_order_release);
  watcher_.wake();  // wait() may be asleep with a later deadline
}

// If a forked child holds a copy of the socket, closing ours would leave it in epoll.
void Plane::drop_socket(Connection& connection) {
  if (connection.fd.valid()) watcher_.forget(connection.fd.get());
  connection.fd.reset();
}

void Plane::update_watch(Connection& connection) {
  DCHECK(connection.fd.valid() && connection.state != ConnectionState::Lost);
  const std::uint32_t wanted = connection.wanted_events();
  if (wanted == connection.watched) return;
  if (watcher_.change(connection.fd.get(), connection.id, wanted)) {
    connection.watched = wanted;
  } else if (connection.state != ConnectionState::Closing) {  // a closing connection has a deadline
    lose_later(connection, named(connection, {Errc::System, "epoll refuses to watch its socket"}));
  }
}

// Ends a connection and tells the handler, if it has heard of it. The connection stays in state
// Lost until the handler has returned.
void Plane::lose(ConnectionId id, const Loss& loss) {
  Connection* connection = find(id);
  DCHECK(connection != nullptr && connection->state != ConnectionState::Lost);
  if (unauthenticated_.contains(id) && unauthenticated_lines_.take(clock_.now_ns())) {
    LOG_INFO("control: dropped an unauthenticated connection, {}{}", loss.text,
             unauthenticated_lines_.rest());
  }
  connection->state = ConnectionState::Lost;
  drop_socket(*connection);
  if (connection->known) events_.on_lost(id, loss.reason, loss.text);
  erase(id);
}

// For calls that must not call the handler: the next poll_once() reports the loss.
void Plane::lose_later(Connection& connection, Loss loss) {
  DCHECK(connection.state != ConnectionState::Closing && connection.state != ConnectionState::Lost);
  connection.loss = std::move(loss);
  connection.step_deadline_ns = 0;
  note_deadline(0);
}

ConnectionId Plane::dial(const DialOrder& order) {
  const OneAtATime::Call call(calls_);
  Connection& connection = add();
  try {
    prepare_dial(connection, order);
  } catch (...) {
    erase(connection.id);
    throw;
  }
  return connection.id;
}

void Plane::prepare_dial(Connection& connection, const DialOrder& order) {
  connection.state = ConnectionState::Dialing;
  connection.known = true;
  connection.port = order.port;
  connection.dial_timeout_ns = order.timeout_ns;
  for (const SocketAddress& address : with_scopes(order.addresses, listener_.addresses))
    connection.candidates.push_back({address});
  start_dial(connection);
}

// Ends, in the next pass, a connection for which there is no memory.
void Plane::lose_for_memory(ConnectionId id) noexcept {
  if (Connection* const connection = find(id); connection != nullptr) {
    connection->loss.emplace();
    connection->loss->reason = Errc::System;
    connection->loss->text = "out of memory";  // short enough to need no allocation
    connection->step_deadline_ns = 0;
  }
  note_deadline(0);
}

void Plane::start_dial(Connection& connection) {
  DCHECK(connection.state == ConnectionState::Dialing && connection.dial_timeout_ns != 0);
  drop_socket(connection);
  for (DialStep step = dial_next(connection); step != DialStep::NoneLeft;
       step = dial_next(connection)) {
    if (step == DialStep::NoDescriptor) {
      if (await_descriptor(connection)) return;
      note_dial_failure(connection, Errc::System, "the process is out of file descriptors");
      ++connection.next_candidate;
      continue;
    }
    connection.descriptor_until_ns = 0;
    if (!watcher_.watch(connection.fd.get(), connection.id, EPOLLOUT).ok()) {
      note_dial_failure(connection, Errc::System, "epoll refuses to watch its socket");
      continue;
    }
    connection.watched = EPOLLOUT;
    connection.step_deadline_ns = clock_.now_ns() + dial_patience_ns(connection);
    note_deadline(connection.step_deadline_ns);
    return;
  }
  drop_socket(connection);
  lose_later(connection, connection.dial_loss);
}

// Returns false if the time of this address is up.
bool Plane::await_descriptor(Connection& connection) {
  const std::uint64_t now_ns = clock_.now_ns();
  if (connection.descriptor_until_ns == 0)
    connection.descriptor_until_ns = now_ns + connection.dial_timeout_ns;
  if (now_ns >= connection.descriptor_until_ns) {
    connection.descriptor_until_ns = 0;
    return false;
  }
  connection.step_deadline_ns =
      std::min(now_ns + kNoDescriptorToRetryNs, connection.descriptor_until_ns);
  note_deadline(connection.step_deadline_ns);
  return true;
}

void Plane::advance_dial(ConnectionId id) {
  Connection& connection = *find(id);
  DCHECK(connection.state == ConnectionState::Dialing && connection.known);
  if (!connection.fd.valid()) return start_dial(connection);  // it waited for a free descriptor
  const Status status = dial_result(connection);
  if (status.code() == Errc::WouldBlock) return;
  if (!status.ok()) {
    start_dial(connection);
    return;
  }
  connection.state = ConnectionState::Up;
  connection.step_deadline_ns = kNever;
  connection.send_broken = !connection.queue.flush(connection.fd.get());
  update_watch(connection);
  if (!connection.loss) events_.on_dialed(id);
}

bool Plane::send(ConnectionId id, Bytes frame) {
  const OneAtATime::Call call(calls_);
  DCHECK(frame.size() >= kFrameHeaderBytes);
  Connection* connection = find(id);
  if (connection == nullptr || connection->loss || connection->send_broken) return false;
  if (connection->state != ConnectionState::Up && connection->state != ConnectionState::Dialing)
    return false;
  if (!connection->queue.push(std::move(frame))) {
    lose_later(
        *connection,
        named(*connection, {Errc::Exhausted,
                            fmt::format("reads nothing: more than {} bytes wait to be sent to it",
                                        kSendQueueBytesMax)}));
    return false;
  }
  if (connection->state == ConnectionState::Dialing) return true;
  // A socket that fails here may still hold the peer's last frames. Reading them leads to the
  // reason.
  connection->send_broken = !connection->queue.flush(connection->fd.get());
  update_watch(*connection);
  return !connection->send_broken;
}

void Plane::identify(ConnectionId id) {
  const OneAtATime::Call call(calls_);
  Connection* connection = find(id);
  if (connection == nullptr) return;
  connection->first_frame_deadline_ns = kNever;
  connection->known = true;
  forget_unauthenticated(id);
}

void Plane::close(ConnectionId id) {
  const OneAtATime::Call call(calls_);
  Connection* connection = find(id);
  if (connection == nullptr || connection->state == ConnectionState::Closing ||
      connection->state == ConnectionState::Lost)
    return;
  if (connection->state == ConnectionState::Dialing || connection->loss) {
    erase(id);
    return;
  }
  connection->state = ConnectionState::Closing;
  connection->first_frame_deadline_ns = kNever;
  connection->step_deadline_ns = clock_.now_ns() + kCloseToCutNs;
  note_deadline(connection->step_deadline_ns);
  advance_close(id);
}

void Plane::advance_close(ConnectionId id) {
  Connection& connection = *find(id);
  if (closing_done(connection)) {
    erase(id);
  } else {
    update_watch(connection);
  }
}

std::string Plane::peer_name(ConnectionId id) const {
  const OneAtATime::Call call(calls_);
  const Connection* connection = find(id);
  return connection == nullptr ? "unknown" : connection->name;
}

Status Plane::watch(int fd) {
  const OneAtATime::Call call(calls_);
  return watcher_.watch(fd, kForeignBit | static_cast<std::uint64_t>(fd), EPOLLIN);
}

// A descriptor that has hung up would be ready for ever, so it is forgotten.
void Plane::on_foreign_event(int fd, std::uint32_t events) {
  events_.on_readable(fd);
  if ((events & EPOLLIN) == 0) watcher_.forget(fd);
}

SocketAddress Plane::peer_address(ConnectionId id) const {
  const OneAtATime::Call call(calls_);
  const Connection* connection = find(id);
  return connection == nullptr ? SocketAddress{} : connection->peer;
}

SocketAddress Plane::own_address(ConnectionId id) const {
  const OneAtATime::Call call(calls_);
  const Connection* const connection = find(id);
  if (connection == nullptr || !connection->fd.valid()) return {};
  sockaddr_storage own{};
  socklen_t bytes = sizeof own;
  auto* const address = reinterpret_cast<sockaddr*>(&own);
  if (::getsockname(connection->fd.get(), address, &bytes) != 0) return {};
  return SocketAddress::from_sockaddr(address);
}

bool Plane::poll_once() {
  const OneAtATime::Call call(calls_);
  std::array<epoll_event, kEventsPerPass> room;
  bool active = false;
  for (const epoll_event& event : watcher_.ready(room)) {
    if (event.data.u64 == SocketWatcher::kWakeKey) {
      watcher_.wake_taken();
    } else if (event.data.u64 == kListenerKey) {
      active = accept_connections() || active;
    } else if ((event.data.u64 & kForeignBit) != 0) {
      on_foreign_event(static_cast<int>(event.data.u64 & ~kForeignBit), event.events);
      active = true;
    } else {
      try {
        active = on_event(event.data.u64, event.events) || active;
      } catch (const std::exception&) {
        lose_for_memory(event.data.u64);
      }
    }
  }
  const std::uint64_t now_ns = clock_.now_ns();
  if (now_ns >= next_deadline_ns_.load(std::memory_order_relaxed))
    active = expire(now_ns) || active;
  return active;
}

void Plane::wait(int timeout_ms) {
  const std::uint64_t deadline_ns = next_deadline_ns_.load(std::memory_order_acquire);
  if (deadline_ns != kNever) {
    const std::uint64_t now_ns = clock_.now_ns();
    const std::uint64_t left_ns = deadline_ns > now_ns ? deadline_ns - now_ns : 0;
    const auto left_ms =
        static_cast<int>(std::min<std::uint64_t>((left_ns + kNsPerMs - 1) / kNsPerMs, INT32_MAX));
    timeout_ms = timeout_ms < 0 ? left_ms : std::min(timeout_ms, left_ms);
  }
  watcher_.wait(timeout_ms);
}

bool Plane::on_event(ConnectionId id, std::uint32_t events) {
  Connection* connection = find(id);
  // The connection may have been closed earlier in this pass, or its loss is about to be reported.
  if (connection == nullptr || connection->loss) return false;
  switch (connection->state) {
    case ConnectionState::Dialing: advance_dial(id); return true;
    case ConnectionState::Closing: advance_close(id); return true;
    case ConnectionState::Lost: return false;
    case ConnectionState::Up: break;
  }
  if ((events & EPOLLOUT) != 0 && !connection->send_broken) {
    connection->send_broken = !connection->queue.flush(connection->fd.get());
    update_watch(*connection);
  }
  const bool sent = (events & EPOLLOUT) != 0;
  return ((events & ~static_cast<std::uint32_t>(EPOLLOUT)) != 0 && read_frame(id)) || sent;
}

// Reads at most one frame. Returns true if something arrived.
bool Plane::read_frame(ConnectionId id) {
  Connection& connection = *find(id);
  DCHECK(connection.state == ConnectionState::Up && connection.fd.valid());
  switch (connection.reader.read(connection.fd.get())) {
    case ReadOutcome::Idle: return false;
    case ReadOutcome::Partial:
      if (connection.step_deadline_ns == kNever)
        connection.step_deadline_ns = clock_.now_ns() + kFrameBeginToEndNs;
      note_deadline(connection.step_deadline_ns);
      return true;
    case ReadOutcome::Frame: deliver(id); return true;
    case ReadOutcome::Lost: lose(id, named(connection, connection.reader.loss())); return true;
  }
  return false;
}

void Plane::deliver(ConnectionId id) {
  Connection& connection = *find(id);
  const FrameHeader header = connection.reader.header();
  // The body is taken out of the connection, because the handler may close the connection.
  const Bytes body = connection.reader.take_body();
  connection.step_deadline_ns = kNever;
  connection.known = true;
  if (!events_.on_frame(id, header, body)) close(id);
}

Result<std::unique_ptr<ControlPlane>> ControlPlane::open(const ControlPlaneOptions& options,
                                                         ControlEvents& events) {
  auto plane = std::make_unique<Plane>(options.clock, events);
  if (const Status status = plane->open(options); !status.ok()) return status;
  return std::unique_ptr<ControlPlane>(std::move(plane));
}

}  // namespace mesh::engine

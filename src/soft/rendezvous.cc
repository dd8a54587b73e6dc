#include "src/soft/rendezvous.h"

#include "src/base/check.h"
#include "src/base/clock.h"
#include "src/base/fork_guard.h"
#include "src/base/log.h"
#include "src/soft/copy.h"
#include "src/soft/rendezvous_wire.h"
#include "src/soft/unix_socket.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

namespace mesh::soft {

Registry& Registry::instance() {
  // It is never destroyed, because an exit handler that runs after the static destructors may close
  // a host.
  static auto* const registry = new Registry;
  return *registry;
}

bool Registry::claim(const Place& place) {
  DCHECK(!place.host.empty());
  std::lock_guard lock(mutex_);
  return hosts_.emplace(place, nullptr).second;
}

void Registry::open(const Place& place, LocalHost* owner) {
  std::lock_guard lock(mutex_);
  hosts_.at(place) = owner;
}

void Registry::release(const Place& place) {
  std::lock_guard lock(mutex_);
  const std::size_t erased = hosts_.erase(place);
  CHECK(erased == 1);
}

bool Registry::visit(const Place& place, const std::function<void(LocalHost&)>& use) {
  std::lock_guard lock(mutex_);
  const auto it = hosts_.find(place);
  if (it == hosts_.end() || it->second == nullptr) return false;
  use(*it->second);
  return true;
}

void Registry::visit_all(Place place, const std::function<void(LocalHost&)>& use) {
  for (place.slot = 0; place.slot < kSlotsMax; ++place.slot) visit(place, use);
}

namespace {

constexpr std::uint64_t kListenerId = 0, kWakeId = 1;
constexpr int kAcceptsMax = 64;                           // then other threads get the mutex
constexpr std::uint64_t kAcceptPauseNs = 100 * kNsPerMs;  // then a descriptor may be free again
constexpr std::uint64_t kDialNs = 5 * kNsPerSecond;       // wait for a full queue of connections
constexpr int kDialPauseMs = 1;

std::uint64_t hash_text(const std::string& text, std::uint64_t seed) {
  std::uint64_t hash = 0xcbf29ce484222325u ^ seed;  // FNV-1a
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

// Logs who has taken a host's name: any user may take any name of this name space.
void say_who_is(const std::string& host, const std::string& name) {
  const UniqueFd fd = connect_abstract(name);
  if (!fd.valid()) {
    LOG_DETAIL("soft fabric: the name of host {} is held by a process that does not answer: {}",
               host, std::strerror(errno));
    return;
  }
  const Credentials who = credentials_of(fd.get());
  if (who.uid == ::geteuid()) {
    LOG_DETAIL("soft fabric: process {} is host {}", who.pid, host);
  } else {
    LOG_WARN("soft fabric: host {} cannot be claimed: process {} of user {} holds its name", host,
             who.pid, who.uid);
  }
}

// Connects to a host, which may be too busy to accept. No lock is held here: it may wait for us.
UniqueFd dial(const std::string& host, const std::string& name) {
  const Clock clock;
  const std::uint64_t give_up_ns = clock.now_ns() + kDialNs;
  UniqueFd fd = connect_abstract(name);
  while (!fd.valid() && errno == EAGAIN && clock.now_ns() < give_up_ns) {
    ::poll(nullptr, 0, kDialPauseMs);
    fd = connect_abstract(name);
  }
  if (!fd.valid()) {
    if (errno != ECONNREFUSED)
      LOG_WARN("soft fabric: host {} cannot be reached: {}", host, std::strerror(errno));
    return fd;
  }
  const Credentials who = credentials_of(fd.get());
  if (who.uid == ::geteuid()) return fd;
  LOG_WARN("soft fabric: process {} of user {} holds the name of host {}, which is lost", who.pid,
           who.uid, host);
  return {};
}

}  // namespace

std::string rendezvous_name(const std::string& universe, const std::string& host, int slot) {
  const std::string text = fmt::format("{}\n{}\n{}\n{}", universe, ::geteuid(), host, slot);
  return fmt::format("mesh-soft-{}-{:016x}{:016x}", ::geteuid(), hash_text(text, 0),
                     hash_text(text, 0x9e3779b97f4a7c15u));
}

Result<std::unique_ptr<Rendezvous>> Rendezvous::open(const RendezvousOptions& options) {
  std::unique_ptr<Rendezvous> meeting(new Rendezvous(options));
  const std::string name = rendezvous_name(options.universe, options.host, options.slot);
  meeting->listener_ = listen_abstract(name);
  if (!meeting->listener_.valid()) {
    if (errno == EADDRINUSE) {
      say_who_is(options.host, name);
      return Errc::Exhausted;
    }
    LOG_WARN("soft fabric: host {} cannot be claimed: {}", options.host, std::strerror(errno));
    return Errc::System;
  }
  meeting->epoll_ = UniqueFd(::epoll_create1(EPOLL_CLOEXEC));
  if (meeting->epoll_.valid()) fork_close_fd(meeting->epoll_.get());
  meeting->probe_ = hash_text(options.host, static_cast<std::uint64_t>(::getpid()) << 32);
  const bool ok = meeting->epoll_.valid() &&
                  meeting->watch(meeting->listener_.get(), kListenerId, EPOLLIN, EPOLL_CTL_ADD) &&
                  meeting->watch(options.board->wake_fd(), kWakeId, EPOLLIN, EPOLL_CTL_ADD);
  if (!ok) {
    LOG_WARN("soft fabric: cannot create an epoll instance for host {}: {}", options.host,
             std::strerror(errno));
    return Errc::System;
  }
  return meeting;
}

Rendezvous::~Rendezvous() {
  for (auto& [id, connection] : connections_)
    if (connection.peer != nullptr) connection.peer->lose();
}

bool Rendezvous::watch(int fd, std::uint64_t id, std::uint32_t events, int how) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = id;
  return ::epoll_ctl(epoll_.get(), how, fd, &event) == 0;
}

Rendezvous::Connection* Rendezvous::add(UniqueFd fd, std::uint64_t* id) {
  *id = next_id_++;
  DCHECK(!connections_.contains(*id));
  if (connections_.size() >= kConnectionsMax ||
      !watch(fd.get(), *id, EPOLLIN | EPOLLRDHUP, EPOLL_CTL_ADD))
    return nullptr;
  Connection& connection = connections_[*id];
  connection.fd = std::move(fd);
  return &connection;
}

std::shared_ptr<Peer> Rendezvous::met(const std::string& host, int slot) const {
  for (const auto& [id, connection] : connections_) {
    if (connection.accepted || connection.slot != slot) continue;
    if (connection.peer->host() == host && !connection.peer->lost()) return connection.peer;
  }
  return nullptr;
}

std::shared_ptr<Peer> Rendezvous::peer(const std::string& host, int slot) {
  {
    const std::lock_guard lock(mutex_);
    if (std::shared_ptr<Peer> known = met(host, slot); known != nullptr) return known;
  }
  UniqueFd fd = dial(host, rendezvous_name(options_.universe, host, slot));
  const std::lock_guard lock(mutex_);
  // Another thread may have dialed the same host meanwhile; one connection is enough.
  if (std::shared_ptr<Peer> known = met(host, slot); known != nullptr) return known;
  auto peer = std::make_shared<Peer>(host);
  std::uint64_t id = 0;
  Connection* const connection = fd.valid() ? add(std::move(fd), &id) : nullptr;
  if (connection == nullptr) {
    peer->lose();
    return peer;
  }
  connection->peer = peer;
  connection->slot = slot;
  greet(*connection, kHello);
  return peer;
}

void Rendezvous::greet(Connection& connection, std::uint32_t type) {
  DCHECK((type == kWelcome) == connection.accepted && connection.peer != nullptr);
  HelloMessage hello;
  hello.prefix.type = type;
  options_.host.copy(hello.host, sizeof hello.host - 1);
  hello.probe_address = reinterpret_cast<std::uintptr_t>(&probe_);
  hello.probe_value = probe_;
  const Board& board = *options_.board;
  std::vector<int> lent{board.memory_fd(), board.wake_fd(), board.waiters_fd()};
  if (options_.shown_fd >= 0) lent.push_back(options_.shown_fd);
  send(connection, {bytes_of(hello), {}, std::move(lent)});
}

void Rendezvous::offer(const Peer& peer, const Offer& offer) {
  const OfferMessage body{{.type = kOffer},  offer.gid,       offer.from_nic,      offer.to_nic,
                          offer.from_qp_num, offer.to_qp_num, offer.ring->slots(), offer.streams,
                          offer.pkey,        offer.to_lid,    offer.gid_type};
  Message message{bytes_of(body), {}, {}};
  message.fds.push_back(offer.ring->memory().take_fd());
  std::lock_guard lock(mutex_);
  for (auto& [id, connection] : connections_)
    if (connection.peer.get() == &peer) return send(connection, std::move(message));
}

void Rendezvous::carry(const Peer& peer, const SoftDatagram& datagram) {
  const verbs::CableDatagram& content = datagram.content;
  const DatagramMessage body{.prefix = {.type = kDatagram},
                             .from_address = content.from.address,
                             .from_ipv4 = content.from.ipv4,
                             .from_port = content.from.port,
                             .to_port = datagram.to_port,
                             .to_nic = datagram.to_nic,
                             .bytes = static_cast<std::uint32_t>(content.bytes),
                             .data = content.data};
  std::lock_guard lock(mutex_);
  for (auto& [id, connection] : connections_)
    if (connection.peer.get() == &peer) return send(connection, {bytes_of(body), {}, {}});
}

void Rendezvous::send(Connection& connection, Message message) {
  connection.outbox.push_back(std::move(message));
  for (auto& [id, other] : connections_)
    if (&other == &connection) return flush(id, connection);
}

// Sends what there is room for; the rest waits. A connection that is gone shows it by end of file.
void Rendezvous::flush(std::uint64_t id, Connection& connection) {
  while (!connection.outbox.empty()) {
    const Message& message = connection.outbox.front();
    std::vector<int> fds = message.lent;
    for (const UniqueFd& fd : message.fds)
      if (fd.valid()) fds.push_back(fd.get());
    const Io result = send_message(connection.fd.get(), message.bytes, fds);
    if (result == Io::Again) break;
    connection.outbox.pop_front();
  }
  const bool waits = !connection.outbox.empty();
  if (waits == connection.waits_for_room) return;
  connection.waits_for_room = waits;
  watch(connection.fd.get(), id, EPOLLIN | EPOLLRDHUP | (waits ? EPOLLOUT : 0u), EPOLL_CTL_MOD);
}

void Rendezvous::poll_once(int timeout_ms) {
  std::array<epoll_event, 32> events{};
  const int wait_ms = resume_accepting(timeout_ms);
  const int count =
      ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), wait_ms);
  if (count <= 0) return;
  const std::lock_guard lock(mutex_);
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = events[static_cast<std::size_t>(i)];
    try {
      look_at(event);
    } catch (const std::bad_alloc&) {
      LOG_WARN("soft fabric: out of memory; a connection is closed");
      if (connections_.contains(event.data.u64)) drop(event.data.u64);
    }
  }
}

void Rendezvous::look_at(const epoll_event& event) {
  const std::uint64_t id = event.data.u64;
  if (id == kListenerId) return accept_some();
  if (id == kWakeId) {
    std::uint64_t value;
    [[maybe_unused]] const ssize_t got = ::read(options_.board->wake_fd(), &value, sizeof value);
    return;
  }
  const auto it = connections_.find(id);
  if (it == connections_.end()) return;
  if ((event.events & EPOLLOUT) != 0) flush(id, it->second);
  if ((event.events & ~static_cast<std::uint32_t>(EPOLLOUT)) != 0) receive_all(id);
}

// Logs a line that others can cause at will, within a budget: they must not fill the log.
void Rendezvous::warn(const std::string& what) {
  if (lines_.take(Clock().now_ns())) LOG_WARN("soft fabric: {}{}", what, lines_.rest());
}

// Accepts some connections. The listener is level-triggered: the rest comes first in the next pass.
void Rendezvous::accept_some() {
  for (int i = 0; i < kAcceptsMax; ++i) {
    UniqueFd fd = accept_connection(listener_.get());
    if (!fd.valid() && errno == EAGAIN) return;
    if (!fd.valid()) return pause_accepting(errno);
    accept_failed_ = false;
    const Credentials who = credentials_of(fd.get());
    if (who.uid != ::geteuid()) {
      warn(fmt::format("process {} of user {} is not let in", who.pid, who.uid));
      continue;
    }
    std::uint64_t id = 0;
    if (Connection* connection = add(std::move(fd), &id); connection != nullptr) {
      connection->accepted = true;
      connection->pid = who.pid;
    }
  }
}

// Pauses without a descriptor: connections stay queued, and epoll would report them for ever.
void Rendezvous::pause_accepting(int error) {
  if (!std::exchange(accept_failed_, true))
    warn(fmt::format("host {} cannot accept connections for now: {}", options_.host,
                     std::strerror(error)));
  accept_again_ns_ = Clock().now_ns() + kAcceptPauseNs;
  watch(listener_.get(), kListenerId, 0, EPOLL_CTL_MOD);
}

// Returns the longest time to wait for events.
int Rendezvous::resume_accepting(int timeout_ms) {
  if (accept_again_ns_ == 0) return timeout_ms;
  const std::uint64_t now_ns = Clock().now_ns();
  if (now_ns < accept_again_ns_) {
    const int left_ms = static_cast<int>((accept_again_ns_ - now_ns) / kNsPerMs) + 1;
    return timeout_ms < 0 ? left_ms : std::min(timeout_ms, left_ms);
  }
  accept_again_ns_ = 0;
  watch(listener_.get(), kListenerId, EPOLLIN, EPOLL_CTL_MOD);
  return timeout_ms;
}

void Rendezvous::receive_all(std::uint64_t id) {
  std::array<std::byte, kMessageBytesMax> buffer;
  for (;;) {
    Connection& connection = connections_.at(id);
    Received received;
    const Io result = receive_message(connection.fd.get(), buffer, &received);
    if (result == Io::Again) return;
    if (received.fds_lost)
      warn(fmt::format("host {} cannot take what process {} shares with it: too many open files",
                       options_.host, connection.pid));
    const bool good = result == Io::Done && !received.fds_lost;
    if (!good || !handle(connection, std::span(buffer).first(received.bytes), received))
      return drop(id);
  }
}

bool Rendezvous::handle(Connection& connection, std::span<const std::byte> bytes,
                        Received& received) {
  Prefix prefix;
  if (bytes.size() < sizeof prefix) return false;
  std::memcpy(&prefix, bytes.data(), sizeof prefix);
  if (prefix.magic != kRendezvousMagic || prefix.version != kRendezvousVersion) {
    warn(fmt::format("a peer speaks version {}, not {}", prefix.version, kRendezvousVersion));
    return false;
  }
  if (prefix.type == (connection.accepted ? kHello : kWelcome))
    return handle_hello(connection, bytes, received);
  if (prefix.type == kJoin && connection.accepted && options_.state_fd >= 0) {
    send(connection, {bytes_of(Prefix{.type = kJoined}), {}, {options_.state_fd}});
    return true;
  }
  if (prefix.type == kFault && connection.accepted) return handle_fault(connection, bytes);
  if (prefix.type == kDatagram && connection.accepted && connection.peer != nullptr)
    return handle_datagram(bytes);
  return prefix.type == kOffer && connection.accepted && connection.peer != nullptr &&
         handle_offer(connection, bytes, received);
}

bool Rendezvous::handle_hello(Connection& connection, std::span<const std::byte> bytes,
                              Received& received) {
  HelloMessage hello;
  if (bytes.size() != sizeof hello || !received.fds[0].valid()) return false;
  // A second board would free the first, which the NICs' threads use without a lock.
  if (connection.peer != nullptr && connection.peer->board() != nullptr) {
    warn(fmt::format("host {} greets twice, so its connection is closed", connection.peer->host()));
    return false;
  }
  std::memcpy(&hello, bytes.data(), sizeof hello);
  hello.host[sizeof hello.host - 1] = '\0';
  Result<Segment> memory = Segment::map(std::move(received.fds[0]), sizeof(HostBoard));
  if (!memory.ok()) return false;
  std::shared_ptr<HostState> state;
  if (received.fds[3].valid()) {
    Result<std::shared_ptr<HostState>> mapped = HostState::map_peers(std::move(received.fds[3]));
    if (!mapped.ok()) return false;
    state = std::move(*mapped);
  }
  auto board = std::make_shared<Board>(
      std::move(*memory),
      Board::Wakers{.agent = std::move(received.fds[1]), .waiters = std::move(received.fds[2])});
  if (connection.accepted) {
    connection.peer = std::make_shared<Peer>(hello.host);
    connection.readable = can_read_process(connection.pid, hello.probe_address, hello.probe_value);
    greet(connection, kWelcome);
  }
  connection.peer->set_board(std::move(board), std::move(state));
  options_.events->peer_changed(*connection.peer);
  return true;
}

bool Rendezvous::by_cells(const Connection& connection) const {
  if (options_.copy != CopyMode::Auto) return options_.copy == CopyMode::Cells;
  return !connection.readable || cells_are_cheaper();
}

bool Rendezvous::handle_offer(Connection& connection, std::span<const std::byte> bytes,
                              Received& received) {
  OfferMessage body;
  if (bytes.size() != sizeof body || !received.fds[0].valid()) return false;
  std::memcpy(&body, bytes.data(), sizeof body);
  Result<std::shared_ptr<Ring>> ring = Ring::map(std::move(received.fds[0]), body.slots);
  if (!ring.ok() || !Board::has_nic(body.from_nic)) return false;
  const Offer offer{*ring,          connection.peer, body.gid,
                    body.from_nic,  body.to_nic,     body.from_qp_num,
                    body.to_qp_num, connection.pid,  body.streams != 0 || by_cells(connection),
                    body.pkey,      body.to_lid,     static_cast<std::uint8_t>(body.gid_type)};
  if (options_.copy == CopyMode::Cma && !offer.streams && !connection.readable) {
    LOG_WARN("soft fabric: host {} (process {}): cannot read its memory; copying by cells is off",
             connection.peer->host(), connection.pid);
    offer.ring->set_state(TargetState::Dead);
    return true;
  }
  options_.events->take_offer(offer);
  return true;
}

bool Rendezvous::handle_datagram(std::span<const std::byte> bytes) {
  DatagramMessage body;
  if (bytes.size() != sizeof body) return false;
  std::memcpy(&body, bytes.data(), sizeof body);
  if (body.bytes > body.data.size()) return false;
  options_.events->take_datagram(
      {.to_nic = body.to_nic,
       .to_port = body.to_port,
       .content = {
           .from = {.address = body.from_address, .ipv4 = body.from_ipv4, .port = body.from_port},
           .bytes = body.bytes,
           .data = body.data}});
  return true;
}

bool Rendezvous::handle_fault(Connection& connection, std::span<const std::byte> bytes) {
  FaultOrder order;
  if (!decode(bytes, &order)) return false;
  const FaultAnswer answer = options_.events->take_fault(order);
  FaultAnswerMessage message;
  message.prefix.type = kFaultAnswer;
  message.code = static_cast<std::int32_t>(answer.code);
  message.count = answer.count;
  message.port_up = answer.port_up ? 1 : 0;
  message.connected = answer.connected;
  message.work_requests = answer.work_requests;
  message.bytes = answer.bytes;
  send(connection, {bytes_of(message), {}, {}});
  return true;
}

void Rendezvous::drop(std::uint64_t id) {
  const auto it = connections_.find(id);
  DCHECK(it != connections_.end());
  const std::shared_ptr<Peer> peer = it->second.peer;
  connections_.erase(it);
  if (peer == nullptr) return;
  peer->lose();
  options_.events->peer_changed(*peer);
}

}  // namespace mesh::soft

#include "engine/control/control_connection.h"

#include "src/base/byte_order.h"
#include "src/base/check.h"
#include "src/base/timeouts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>
#include <system_error>
#include <utility>

#include <sys/epoll.h>
#include <sys/socket.h>

namespace mesh::engine {

namespace {

constexpr std::size_t kPrefixBytes = 6;  // magic and version tell our frames from others
constexpr std::size_t kTypeBytes = 2;    // the type follows the prefix
constexpr int kDiscardsMax = 16;         // reads in one pass of a closing connection
constexpr std::size_t kDiscardBytes = 4096;
constexpr std::size_t kBodyStepBytes = 512;

std::string error_text(int error) { return std::generic_category().message(error); }

// The errors of recv and send that mean "ask again when the socket is ready".
bool again(int error) {
  return error == EAGAIN || error == EWOULDBLOCK || error == EINTR || error == ENOBUFS ||
         error == ENOMEM;
}

// Returns true for the errors with which a socket ends if not even the peer's kernel has answered.
bool silent(int error) {
  return error == ETIMEDOUT || error == EHOSTUNREACH || error == EHOSTDOWN ||
         error == ENETUNREACH || error == ENETDOWN;
}

// A dial to a port of our own host that nobody listens on may meet itself: TCP allows it when the
// port picked is the port dialed.
bool connected_to_itself(int fd) {
  sockaddr_storage local{};
  sockaddr_storage peer{};
  socklen_t local_bytes = sizeof local;
  socklen_t peer_bytes = sizeof peer;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&local), &local_bytes) != 0) return false;
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &peer_bytes) != 0) return false;
  return local_bytes == peer_bytes && std::memcmp(&local, &peer, local_bytes) == 0;
}

}  // namespace

ReadOutcome FrameReader::read(int fd) {
  bool any = false;
  while (true) {
    DCHECK(header_got_ <= kFrameHeaderBytes && body_got_ <= body_.size());
    const bool in_header = header_got_ < kFrameHeaderBytes;
    if (!in_header && body_got_ == header_.body_bytes) return ReadOutcome::Frame;
    if (!in_header && body_got_ == body_.size()) grow_body();
    const std::span<std::byte> room = in_header
                                          ? std::span<std::byte>(header_bytes_).subspan(header_got_)
                                          : std::span<std::byte>(body_).subspan(body_got_);
    const ssize_t received = ::recv(fd, room.data(), room.size(), MSG_DONTWAIT);
    if (received < 0 && again(errno)) return any ? ReadOutcome::Partial : ReadOutcome::Idle;
    if (received <= 0) return end_of_stream(received);
    any = true;
    (in_header ? header_got_ : body_got_) += static_cast<std::size_t>(received);
    if (in_header && !header_acceptable()) return ReadOutcome::Lost;
  }
}

bool FrameReader::header_acceptable() {
  if (header_got_ < kPrefixBytes) return true;
  std::uint16_t version = 0;
  const Result<FrameHeader> header = decode_header(header_bytes_.data(), header_got_, &version);
  if (version == 0) {
    loss_ = {Errc::Protocol, "sent something other than a control message"};
    return false;
  }
  if (version != kProtocolVersion && !may_be_decline()) {
    loss_ = {Errc::Protocol,
             fmt::format("it speaks version {}, we speak {}", version, kProtocolVersion)};
    return false;
  }
  if (header_got_ < kFrameHeaderBytes) return true;
  if (!header.ok()) {
    loss_ = {Errc::Protocol, "sent a malformed header"};
    return false;
  }
  DCHECK(header->body_bytes <= kBodyBytesMax && body_.empty());
  header_ = *header;
  body_got_ = 0;
  return true;
}

// Returns true if the frame may be a DECLINE, which is taken in any version.
bool FrameReader::may_be_decline() const {
  if (header_got_ < kPrefixBytes + kTypeBytes) return true;
  ByteReader type{std::span(header_bytes_).subspan(kPrefixBytes, kTypeBytes)};
  return type.get_u16() == static_cast<std::uint16_t>(MessageType::Decline);
}

// A header alone must not cost us the memory of the largest body, so the memory grows with the
// bytes that arrive.
void FrameReader::grow_body() {
  DCHECK(body_.size() < header_.body_bytes);
  body_.resize(
      std::min<std::size_t>(header_.body_bytes, std::max(kBodyStepBytes, 2 * body_.size())));
  DCHECK(body_got_ < body_.size());
}

ReadOutcome FrameReader::end_of_stream(long received) {
  const int error = received < 0 ? errno : 0;
  loss_ = {silent(error) ? Errc::Unreachable : Errc::PeerGone,
           error != 0 ? error_text(error) : std::string("closed the connection")};
  // The text says more if the peer is an unauthenticated connection, or if the stream ends within a
  // message.
  if (in_frame() || !spoke_) loss_.text += " after " + describe();
  return ReadOutcome::Lost;
}

Bytes FrameReader::take_body() {
  DCHECK(header_got_ == kFrameHeaderBytes && body_got_ == header_.body_bytes);
  DCHECK(body_.size() == header_.body_bytes);
  spoke_ = true;
  header_got_ = 0;
  body_got_ = 0;
  return std::exchange(body_, {});
}

std::string FrameReader::describe() const {
  if (!in_frame()) return "nothing";
  const std::size_t whole =
      kFrameHeaderBytes + (header_got_ < kFrameHeaderBytes ? 0 : header_.body_bytes);
  return fmt::format("half a message ({} of {} bytes)", header_got_ + body_got_, whole);
}

bool SendQueue::push(Bytes frame) {
  DCHECK(!frame.empty() && bytes_ <= kSendQueueBytesMax);
  if (frame.size() > kSendQueueBytesMax - bytes_) return false;
  bytes_ += frame.size();
  frames_.push_back(std::move(frame));
  return true;
}

bool SendQueue::flush(int fd) {
  while (!frames_.empty()) {
    DCHECK(first_sent_ < frames_.front().size());
    const std::span<const std::byte> rest =
        std::span<const std::byte>(frames_.front()).subspan(first_sent_);
    const ssize_t sent = ::send(fd, rest.data(), rest.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && again(errno)) return true;
    if (sent < 0) {
      frames_.clear();
      first_sent_ = bytes_ = 0;
      // If the socket itself still works, the peer closes it when it reads the end of our stream,
      // and our next read sees that.
      ::shutdown(fd, SHUT_WR);
      return false;
    }
    DCHECK(static_cast<std::size_t>(sent) <= rest.size() && bytes_ >= rest.size());
    first_sent_ += static_cast<std::size_t>(sent);
    bytes_ -= static_cast<std::size_t>(sent);
    if (first_sent_ < frames_.front().size()) continue;
    frames_.pop_front();
    first_sent_ = 0;
  }
  DCHECK(bytes_ == 0);
  return true;
}

std::uint32_t Connection::wanted_events() const noexcept {
  const bool sending = !queue.empty();
  switch (state) {
    case ConnectionState::Dialing: return EPOLLOUT;
    case ConnectionState::Up: return sending ? EPOLLIN | EPOLLOUT : EPOLLIN;
    case ConnectionState::Closing: return sending ? EPOLLOUT : EPOLLIN;
    case ConnectionState::Lost: return 0;
  }
  return 0;
}

Loss named(const Connection& connection, const Loss& loss) {
  return {loss.reason, fmt::format("{}: {}", connection.name, loss.text)};
}

void note_dial_failure(Connection& connection, Errc reason, const std::string& text) {
  Loss& loss = connection.dial_loss;
  const bool first = loss.text.empty();
  // The reason is PeerGone only if all candidates failed with it.
  loss.reason = first || reason != Errc::PeerGone ? reason : loss.reason;
  loss.text += fmt::format("{}{}: {}", first ? "" : "; ", connection.name, text);
}

DialStep dial_next(Connection& connection) {
  DCHECK(connection.state == ConnectionState::Dialing && !connection.fd.valid());
  while (connection.next_candidate < connection.candidates.size()) {
    const SocketAddress& address = connection.candidates[connection.next_candidate].address;
    connection.peer = address;
    connection.name = address.text_with_port(connection.port);
    Result<UniqueFd> fd = tcp_connect_start(address, connection.port);
    const int error = errno;
    if (!fd.ok() && (error == EMFILE || error == ENFILE)) return DialStep::NoDescriptor;
    ++connection.next_candidate;
    if (fd.ok()) {
      connection.fd = std::move(*fd);
      return DialStep::Started;
    }
    note_dial_failure(connection, error == ECONNREFUSED ? Errc::PeerGone : fd.code(),
                      error_text(error));
  }
  if (connection.candidates.empty())
    connection.dial_loss = {Errc::Unreachable, "no address to connect to"};
  return DialStep::NoneLeft;
}

Status dial_result(Connection& connection) {
  DCHECK(connection.state == ConnectionState::Dialing && connection.fd.valid());
  const Status status = tcp_connect_result(connection.fd.get());
  const int error = errno;
  if (status.code() == Errc::WouldBlock) return status;
  if (!status.ok()) {
    note_dial_failure(connection, error == ECONNREFUSED ? Errc::PeerGone : status.code(),
                      error_text(error));
    return status;
  }
  if (!connected_to_itself(connection.fd.get())) return {};
  note_dial_failure(connection, Errc::PeerGone, "nobody listens there");
  return Errc::Unreachable;
}

std::uint64_t dial_patience_ns(const Connection& connection) {
  DCHECK(connection.next_candidate > 0 && connection.dial_timeout_ns != 0);
  constexpr std::array kShort{kFirstDialToNextNs, kSecondDialToNextNs};
  const std::uint32_t tries = connection.candidates[connection.next_candidate - 1].tries;
  return connection.candidates.size() > 1 && tries < kShort.size()
             ? std::min(kShort[tries], connection.dial_timeout_ns)
             : connection.dial_timeout_ns;
}

bool put_off_candidate(Connection& connection) {
  if (dial_patience_ns(connection) >= connection.dial_timeout_ns) return false;
  Connection::Candidate again = connection.candidates[connection.next_candidate - 1];
  ++again.tries;
  connection.candidates.push_back(again);
  return true;
}

bool closing_done(Connection& connection) {
  DCHECK(connection.state == ConnectionState::Closing && connection.fd.valid());
  const int fd = connection.fd.get();
  if (!connection.queue.empty()) {
    if (!connection.queue.flush(fd)) return true;
    if (!connection.queue.empty()) return false;
  }
  ::shutdown(fd, SHUT_WR);
  std::array<std::byte, kDiscardBytes> discarded;
  for (int i = 0; i < kDiscardsMax; ++i) {
    const ssize_t received = ::recv(fd, discarded.data(), discarded.size(), MSG_DONTWAIT);
    if (received > 0) continue;
    return received == 0 || !again(errno);
  }
  return false;
}

}  // namespace mesh::engine

#include "tests/unit/engine/link/control_proxy.h"

#include "src/base/socket.h"

#include <netinet/tcp.h>

namespace mesh::testkit {
namespace {
sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return address;
}

constexpr const char* kSecond = "127.0.0.2";

int dial(int fd, std::uint16_t port) {
  const sockaddr_in address = loopback(port);
  return ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address);
}
// Sends short frames without waiting for a delayed acknowledgement, which takes tens of
// milliseconds while the manual clock of a test goes on. Accepted sockets inherit the option of
// their listener.
void send_at_once(int fd) {
  const int on = 1;
  if (::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0)
    throw std::runtime_error("no TCP_NODELAY");
}
}  // namespace

ControlProxy::ControlProxy()
    : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)) {
  const sockaddr_in any = loopback(0);
  sockaddr_in chosen{};
  socklen_t bytes = sizeof chosen;
  if (::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&any), sizeof any) != 0 ||
      ::listen(listener_.get(), 64) != 0 ||
      ::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&chosen), &bytes) != 0) {
    throw std::runtime_error("no proxy");
  }
  send_at_once(listener_.get());
  port_ = ntohs(chosen.sin_port);
}

void ControlProxy::stand_before(HandleBytes& handle) {
  engine::Handle read = engine::read_handle(handle).value();
  target_.store(read.port);
  read.port = port_;
  read.addresses = {SocketAddress::from_text("127.0.0.1").value()};
  if (second_.valid()) read.addresses.push_back(SocketAddress::from_text(kSecond).value());
  engine::write_handle(read, handle);
}

void ControlProxy::accept() {
  if (fillers_.empty()) accept_at(listener_);
  accept_at(second_);
}

void ControlProxy::accept_at(const UniqueFd& listener) {
  while (listener.valid()) {
    UniqueFd front(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!front.valid()) return;
    ++dials_;
    UniqueFd back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    send_at_once(back.get());
    if (dial(back.get(), target_.load()) != 0) continue;
    pipes_.push_back({.front = std::move(front),
                      .back = std::move(back),
                      .from_front = {},
                      .from_back = {},
                      .second = &listener == &second_});
  }
}

void ControlProxy::pump() {
  accept();
  for (Pipe& pipe : pipes_) {
    move(pipe, true);
    move(pipe, false);
  }
  pipes_.remove_if([](const Pipe& pipe) { return !pipe.front.valid() && !pipe.back.valid(); });
}

void ControlProxy::move(Pipe& pipe, bool to_acceptor) {
  UniqueFd& from = to_acceptor ? pipe.front : pipe.back;
  engine::Bytes& held = to_acceptor ? pipe.from_front : pipe.from_back;
  if (!from.valid()) return;
  std::array<std::byte, 65536> room;
  const ssize_t got = ::recv(from.get(), room.data(), room.size(), MSG_DONTWAIT);
  if (got > 0) held.insert(held.end(), room.begin(), room.begin() + got);
  while (from.valid() && held.size() >= engine::kFrameHeaderBytes) {
    const std::size_t bytes =
        engine::kFrameHeaderBytes +
        engine::decode_header(held.data(), held.size(), nullptr).value().body_bytes;
    if (held.size() < bytes) break;
    const auto end = held.begin() + static_cast<std::ptrdiff_t>(bytes);
    const engine::Bytes frame(held.begin(), end);
    held.erase(held.begin(), end);
    apply(pipe, to_acceptor, frame);
  }
  if (got == 0 || (got < 0 && errno != EAGAIN)) {
    if (pipe.stalled) {
      from.reset();
    } else {
      pipe.front.reset();
      pipe.back.reset();
    }
  }
}

void ControlProxy::apply(Pipe& pipe, bool to_acceptor, const engine::Bytes& frame) {
  if (pipe.stalled || (muted_ && !pipe.second)) return;
  const engine::FrameHeader header =
      engine::decode_header(frame.data(), frame.size(), nullptr).value();
  switch (judge ? judge(header, to_acceptor) : Fate::Pass) {
    case Fate::Pass: return pass(pipe, to_acceptor, frame);
    case Fate::Twice: pass(pipe, to_acceptor, frame); return pass(pipe, to_acceptor, frame);
    case Fate::Skip: return;
    case Fate::Half:
      pipe.stalled = true;
      return pass(pipe, to_acceptor, {frame.begin(), frame.begin() + 20});
    case Fate::PassAndCut: pass(pipe, to_acceptor, frame); break;
    case Fate::Lose: break;
  }
  pipe.front.reset();
  pipe.back.reset();
}

void ControlProxy::pass(Pipe& pipe, bool to_acceptor, const engine::Bytes& frame) {
  const UniqueFd& to = to_acceptor ? pipe.back : pipe.front;
  if (!to.valid()) return;
  for (std::size_t sent = 0; sent < frame.size();) {
    const ssize_t now = ::send(to.get(), frame.data() + sent, frame.size() - sent, MSG_NOSIGNAL);
    if (now < 0 && errno != EAGAIN) return;
    if (now > 0) sent += static_cast<std::size_t>(now);
  }
}

void ControlProxy::cut() { pipes_.clear(); }

void ControlProxy::cut_front() {
  for (Pipe& pipe : pipes_) {
    pipe.stalled = true;
    pipe.front.reset();
  }
}

void ControlProxy::cut_back() {
  for (Pipe& pipe : pipes_) {
    pipe.stalled = true;
    pipe.back.reset();
  }
}

void ControlProxy::refuse() { listener_.reset(); }

void ControlProxy::play_dead() {
  ::listen(listener_.get(), 0);  // a full backlog answers no further SYN
  for (int i = 0; i < 4; ++i) {
    fillers_.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    [[maybe_unused]] const int begun = dial(fillers_.back().get(), port_);
  }
}

void ControlProxy::stand_at_second_address() {
  Result<UniqueFd> second = tcp_listen(SocketAddress::from_text(kSecond).value(), port_);
  if (!second.ok()) throw std::runtime_error("no second address");
  second_ = std::move(*second);
  send_at_once(second_.get());
}

void ControlProxy::mute_first_address() {
  muted_ = true;
  play_dead();
}

void ControlProxy::come_alive() {
  muted_ = false;
  fillers_.clear();
  ::listen(listener_.get(), 64);
}

}  // namespace mesh::testkit

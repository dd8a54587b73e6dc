#pragma once
// A control plane without sockets: the fuzzer is every peer. poll_once() hands over what a peer
// says, as the kernel would. Thread: one. Bound: kQueueMax events waiting.

#include "engine/control/control_plane.h"
#include "tests/fuzz/said.h"

#include <cstdint>
#include <deque>
#include <map>

namespace mesh::fuzz {

class MemoryPlane final : public engine::ControlPlane {
 public:
  static constexpr std::size_t kQueueMax = 64;
  struct Line {
    bool dialed = false, up = false;
    engine::Id128 link{};
    std::uint64_t sequence = 0;
  };
  struct Event {
    enum class Kind : std::uint8_t { Dialed, Frame, Lost } kind = Kind::Frame;
    engine::ConnectionId id = 0;
    engine::FrameHeader header;
    engine::Bytes body;
    Errc reason = Errc::PeerGone;
  };

  MemoryPlane(engine::ControlEvents& events, Said& said) : events_(events), said_(said) {}

  engine::ConnectionId arrive();  // a stranger
  void push(Event event);
  std::map<engine::ConnectionId, Line> lines;
  // The number of the peer's last frame, by link; the next connection goes on from it.
  std::map<engine::Id128, std::uint64_t> numbers;

  std::uint16_t port() const noexcept override { return 4711; }
  std::span<const SocketAddress> addresses() const noexcept override { return {&address_, 1}; }
  engine::ConnectionId dial(const engine::DialOrder& order) override;
  bool send(engine::ConnectionId id, engine::Bytes frame) override;
  void identify(engine::ConnectionId) override {}
  void close(engine::ConnectionId id) override { lines.erase(id); }
  std::string peer_name(engine::ConnectionId) const override { return "peer"; }
  SocketAddress peer_address(engine::ConnectionId) const override { return far_; }
  bool poll_once() override;
  void wait(int) override {}
  void wake() noexcept override {}
  Status watch(int) override { return {}; }

 private:
  engine::ControlEvents& events_;
  Said& said_;
  engine::ConnectionId last_ = 0;
  SocketAddress address_ = *SocketAddress::from_text("127.0.0.1");
  SocketAddress far_ = *SocketAddress::from_text("127.0.0.2");
  std::deque<Event> queue_;
};

}  // namespace mesh::fuzz

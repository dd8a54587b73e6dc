#pragma once
// A control plane without sockets: the fuzzer is every peer. poll_once() hands over what a peer
// says, as the kernel would. Thread: one. Bound: kQueueMax events waiting.

#include "tests/fuzz/said.h"
#include "tests/unit/engine/control/fake_plane.h"

namespace mesh::fuzz {

class MemoryPlane final : public testkit::FakePlane {
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

  engine::ConnectionId arrive();  // an unauthenticated connection
  void push(Event event);
  std::map<engine::ConnectionId, Line> lines;
  // The number of the peer's last frame, by link; the next connection goes on from it.
  std::map<engine::Id128, std::uint64_t> numbers;

  engine::ConnectionId dial(const engine::DialOrder& order) override;
  bool send(engine::ConnectionId id, engine::Bytes frame) override;
  void close(engine::ConnectionId id) override { lines.erase(id); }
  bool poll_once() override;

 private:
  engine::ControlEvents& events_;
  Said& said_;
  std::deque<Event> queue_;
};

}  // namespace mesh::fuzz

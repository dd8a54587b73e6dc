#pragma once
// A control plane without sockets. It remembers the orders that it gets, and reports nothing by
// itself. Networks that a simulator or a fuzzer plays derive from it. Thread: one. Bound: what it
// is told.

#include "engine/control/control_plane.h"
#include "tests/standard.h"

namespace mesh::testkit {

class FakePlane : public engine::ControlPlane {
 public:
  static constexpr std::uint16_t kPort = 4711;
  struct Sent {
    engine::ConnectionId connection = 0;
    engine::Bytes frame;
  };
  std::deque<Sent> said;
  std::function<void(engine::MessageType)> on_said;  // what other threads do at that moment
  std::vector<std::vector<SocketAddress>> dialed;
  std::vector<engine::ConnectionId> closed;
  engine::ConnectionId next = 1;
  SocketAddress peer = *SocketAddress::from_text("127.0.0.2");
  std::vector<SocketAddress> own{*SocketAddress::from_text("127.0.0.1")};

  std::uint16_t port() const noexcept override { return kPort; }
  std::span<const SocketAddress> addresses() const noexcept override { return own; }
  engine::ConnectionId dial(const engine::DialOrder& order) override {
    dialed.emplace_back(order.addresses.begin(), order.addresses.end());
    return next++;
  }
  bool send(engine::ConnectionId id, engine::Bytes frame) override {
    const engine::MessageType type =
        engine::decode_header(frame.data(), frame.size(), nullptr)->type;
    said.push_back({id, std::move(frame)});
    if (on_said) on_said(type);
    return true;
  }
  void identify(engine::ConnectionId) override {}
  void close(engine::ConnectionId id) override { closed.push_back(id); }
  std::string peer_name(engine::ConnectionId) const override { return "far"; }
  SocketAddress peer_address(engine::ConnectionId) const override { return peer; }
  SocketAddress own_address(engine::ConnectionId) const override { return own.front(); }
  Status watch(int) override { return {}; }
  bool poll_once() override { return false; }
  void wait(int) override {}
  void wake() noexcept override {}

  // Returns the types of the frames that were said but not yet carried. The frames stay.
  std::vector<engine::MessageType> types() const {
    std::vector<engine::MessageType> types;
    for (const Sent& each : said)
      types.push_back(engine::decode_header(each.frame.data(), each.frame.size(), nullptr)->type);
    return types;
  }
};

}  // namespace mesh::testkit

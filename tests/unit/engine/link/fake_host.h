#pragma once
// Links without an engine. A fake host lends them a clock, a control plane that only records what
// it is told, and the queue pairs of a software fabric. Two such hosts are the ends of a link, and
// a test carries frames between them when it chooses. Thread: one.

#include "engine/link/context.h"
#include "engine/link/link_host.h"
#include "engine/link/links.h"
#include "engine/link/reception.h"
#include "src/soft/soft_provider.h"
#include "tests/unit/engine/bed.h"

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

namespace mesh::testkit {

class FakePlane final : public engine::ControlPlane {
 public:
  struct Said {
    engine::ConnectionId connection = 0;
    engine::Bytes frame;
  };
  std::deque<Said> said;
  std::vector<std::vector<SocketAddress>> dialed;
  std::vector<engine::ConnectionId> closed;
  engine::ConnectionId next = 1;
  SocketAddress peer = *SocketAddress::from_text("127.0.0.2");
  std::vector<SocketAddress> own{*SocketAddress::from_text("127.0.0.1")};

  std::uint16_t port() const noexcept override { return 4711; }
  std::span<const SocketAddress> addresses() const noexcept override { return own; }
  engine::ConnectionId dial(const engine::DialOrder& order) override {
    dialed.emplace_back(order.addresses.begin(), order.addresses.end());
    return next++;
  }
  bool send(engine::ConnectionId id, engine::Bytes frame) override {
    said.push_back({id, std::move(frame)});
    return true;
  }
  void identify(engine::ConnectionId) override {}
  void close(engine::ConnectionId id) override { closed.push_back(id); }
  std::string peer_name(engine::ConnectionId) const override { return "far"; }
  SocketAddress peer_address(engine::ConnectionId) const override { return peer; }
  Status watch(int) override { return {}; }
  bool poll_once() override { return false; }
  void wait(int) override {}
  void wake() noexcept override {}

  // Returns the types of the frames that were said but not yet carried. The frames stay.
  std::vector<engine::MessageType> types() const;
};

class FakeHost final : public engine::LinkHost, engine::ChannelOwner, engine::ControlWaker {
 public:
  FakeHost(const soft::FabricFile& fabric, const std::string& name,
           const std::atomic<std::uint64_t>& clock);
  ~FakeHost();

  const EngineOptions& options() const noexcept override { return settled; }
  std::span<const verbs::Rail> rails() const noexcept override { return found; }
  std::uint64_t now_ns() const noexcept override { return clock_.load(); }
  engine::ControlPlane& plane() noexcept override { return wire; }
  void tend_at(std::uint64_t at_ns) noexcept override { due_ns = std::min(due_ns, at_ns); }
  void tend_soon() noexcept override { ++asked_soon; }
  LogBudget& stranger_lines() noexcept override { return budget; }
  engine::LinkCounts& counts() noexcept override { return counted; }
  engine::LinkIndex& index() noexcept override { return found_by; }
  engine::ChannelOwner& channel_owner() noexcept override { return *this; }
  engine::ControlWaker& waker() noexcept override { return *this; }
  void keep_figures(const engine::Link&) noexcept override { ++forgotten; }

  std::unique_ptr<soft::SoftProvider> provider;
  EngineOptions settled;
  std::vector<verbs::Rail> found;
  FakePlane wire;
  std::uint64_t due_ns = UINT64_MAX;
  int asked_soon = 0, forgotten = 0;
  LogBudget budget;
  engine::LinkCounts counted;
  engine::LinkIndex found_by;
  std::vector<std::unique_ptr<Context>> contexts;
  engine::Links links{*this, contexts};
  engine::Reception reception{*this, links};

 private:
  Result<Registration*> register_memory(Channel&, const MemoryRange&) override {
    return Errc::Internal;
  }
  void deregister_memory(Channel&, Registration&) noexcept override {}
  void close_channel(Channel&) noexcept override {}
  void wake_control() noexcept override {}

  const std::atomic<std::uint64_t>& clock_;
};

// A link from host a to host b over the two halves of a cable, with a listener at b and a connect
// at a.
class TwoEnds {
 public:
  TwoEnds();

  engine::Link& sender() { return *a.contexts[0]->links.back(); }
  engine::Link& receiver() { return *b.contexts[0]->links.back(); }
  engine::Openings& connects() { return sender().openings(); }
  Listener& listener() { return *b.contexts[0]->listeners.front(); }

  void dial();       // makes the connection and says HELLO
  bool carry();      // carries all frames said so far; returns false if none
  void carry_all();  // carries until nothing more is said, tending both ends
  void come_up();    // brings the link up and opens the waiting channel
  void turn();       // turns NICs and loops
  void advance_ns(std::uint64_t by) { clock_.fetch_add(by); }

 private:
  std::atomic<std::uint64_t> clock_{1'000'000'000};
  soft::FabricFile fabric_;

 public:
  FakeHost a, b;
  engine::PendingConnect connect;
};

}  // namespace mesh::testkit

#pragma once
// Links without an engine. A fake host lends them a clock, a control plane that only records what
// it is told, and the queue pairs of a software fabric. Two such hosts are the ends of a link, and
// a test carries frames between them when it chooses. Thread: one.

#include "engine/link/context.h"
#include "engine/link/links.h"
#include "engine/link/reception.h"
#include "src/soft/soft_provider.h"
#include "tests/unit/engine/bed.h"
#include "tests/unit/engine/control/fake_plane.h"
#include "tests/unit/engine/link/fake_link_host.h"

namespace mesh::testkit {

class FakeHost final : public FakeLinkHost {
 public:
  FakeHost(const soft::FabricFile& fabric, const std::string& name,
           const std::atomic<std::uint64_t>& clock);
  ~FakeHost();

  std::span<const verbs::Rail> rails() const noexcept override { return found; }
  std::uint64_t now_ns() const noexcept override { return clock_.load(); }
  engine::ControlPlane& plane() noexcept override { return wire; }
  void tend_at(std::uint64_t at_ns) noexcept override { due_ns = std::min(due_ns, at_ns); }
  void tend_soon() noexcept override { ++asked_soon; }
  void keep_figures(const engine::Link&) noexcept override { ++forgotten; }
  engine::CableProofs* cables() noexcept override { return proofs; }

  std::unique_ptr<soft::SoftProvider> provider;
  std::vector<verbs::Rail> found;
  FakePlane wire;
  std::uint64_t due_ns = UINT64_MAX;
  int asked_soon = 0, forgotten = 0;
  engine::CableProofs* proofs = nullptr;  // a test's; null: the host asks no cable
  std::vector<std::unique_ptr<Context>> contexts;
  engine::Links links{*this, contexts};
  engine::Reception reception{*this, links};

 private:
  const std::atomic<std::uint64_t>& clock_;
};

// A link from host a to host b, over the two halves of a cable unless the test says otherwise, with
// a listener at b and a connect at a.
class TwoEnds {
 public:
  explicit TwoEnds(const char* fabric = kHalves, engine::RailsWish wish = engine::RailsWish::All);

  engine::Link& sender() { return *a.contexts[0]->links.back(); }
  engine::Link& receiver() { return *b.contexts[0]->links.back(); }
  Listener& listener() { return *b.contexts[0]->listeners.front(); }

  void dial();       // makes the connection and says HELLO
  bool carry();      // carries all frames said so far; returns false if none
  void carry_one();  // carries the first frame that a has said
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

// Returns how many frames of this type the host has said that were not carried yet.
int count_said(const FakeHost& host, engine::MessageType type);
engine::PathState state_of(engine::Link& link, std::uint32_t path);
void lose_path(engine::Link& link, std::uint32_t path);

}  // namespace mesh::testkit

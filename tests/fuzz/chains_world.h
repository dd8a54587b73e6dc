#pragma once
// A host that carries for others and asks others to carry, without an engine: RelayService and
// RelayClient on a device and a control plane that the input plays. Anybody who connects may know
// the ticket, and keeps to no protocol. Thread: one. Bounds: kLinesMax connections of others,
// kOrdersMax chains of its own.

#include "engine/link/relay/relay_client.h"
#include "engine/link/relay/relay_service.h"
#include "tests/fuzz/fuzz_verbs.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/memory_plane.h"
#include "tests/fuzz/said.h"
#include "tests/unit/engine/link/fake_link_host.h"

namespace mesh::fuzz {

// The address and the rail of a host with that number in the subnet.
engine::WireAddress played_address(std::uint8_t subnet, std::uint8_t host);
engine::WireRail played_rail(std::uint8_t subnet, std::uint8_t host);
// Returns two neighbours, one on each rail. Made once: they would take a large part of every run.
const std::vector<engine::WireHost>& known_hosts();

class ChainsWorld final : engine::ControlEvents, testkit::FakeLinkHost {
 public:
  static constexpr int kOpsMax = 256;
  static constexpr std::size_t kLinesMax = 6, kOrdersMax = 3;

  ChainsWorld();
  ~ChainsWorld();  // any object that is left on the device is a finding
  void act(Input& input);

 private:
  // ---- engine::ControlEvents: as EngineImpl hands them on.
  void on_dialed(engine::ConnectionId id) override;
  bool on_frame(engine::ConnectionId id, const engine::FrameHeader& header,
                std::span<const std::byte> body) override;
  void on_lost(engine::ConnectionId id, Errc reason, const std::string& text) override;
  void on_readable(int) override {}
  // ---- engine::LinkHost.
  std::span<const verbs::Rail> rails() const noexcept override { return rails_; }
  std::uint64_t now_ns() const noexcept override { return now_ns_; }
  engine::ControlPlane& plane() noexcept override { return plane_; }
  engine::RelayClient* relays() noexcept override { return client_.get(); }
  const engine::Id128& ticket() const noexcept override { return ticket_; }

  void pass();
  void say(Input& input);
  void ask(Input& input);
  void play_device(Input& input);
  engine::Bytes frame(Input& input) const;
  engine::Bytes answer(Input& input, std::uint64_t number) const;
  engine::WireHop hop(Input& input, bool with_rings) const;
  void check() const;

  std::uint64_t now_ns_ = 1'000'000;
  engine::Id128 ticket_{7};
  Said said_;
  FuzzVerbs verbs_;
  MemoryPlane plane_{*this, said_};
  std::vector<verbs::Rail> rails_;
  std::unique_ptr<engine::RelayClient> client_;
  std::unique_ptr<engine::RelayService> service_;
  std::vector<std::unique_ptr<engine::RelayedChains>> orders_;
};

}  // namespace mesh::fuzz

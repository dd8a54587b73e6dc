#pragma once
// One engine and an application that uses it; the fuzzer's input plays the peer, the network and
// the device. The peer knows all that a peer is told, and keeps to no protocol. Thread: one.
// Bounds: kOpsMax operations of an input, kChannelsMax channels and kBuffers buffers of the
// application.

#include <mesh/engine.h>

#include "tests/fuzz/fuzz_verbs.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/memory_plane.h"
#include "tests/fuzz/said.h"
#include "tests/unit/engine/engine_host.h"

namespace mesh::fuzz {

class HostileWorld final : engine::ControlNetwork {
 public:
  static constexpr int kOpsMax = 256;
  static constexpr std::size_t kBuffers = 4, kChannels = 8, kBufferBytes = 20'000;

  HostileWorld();
  ~HostileWorld();  // anything that is left when the engine has gone is a finding

  void act(Input& input);  // any one operation
  // One operation that channels see: of the application, of the device, or a write of the peer.
  void act_on_data(Input& input);
  // Brings both directions up, with one channel each.
  void bring_up();

 private:
  using Op = void (HostileWorld::*)(Input&);
  struct AppChannel {
    Channel* channel = nullptr;
    std::array<Registration*, kBuffers> regions{};
    std::vector<std::pair<Request*, std::size_t>> open;  // with the bytes that were asked for
  };
  struct Region {
    std::vector<std::byte> bytes;
  };

  Result<std::unique_ptr<engine::ControlPlane>> open(const engine::ControlPlaneOptions&,
                                                     engine::ControlEvents& events) override;
  void turn();
  void wait_a_little();

  // The peer and its network.
  void turn_some(Input& input);
  void advance(Input& input);
  void say_well(Input& input);
  void say_anything(Input& input);
  void lose(Input& input);
  void arrive(Input& input);
  void answer_dial(Input& input);
  void number(MemoryPlane::Event& event, MemoryPlane::Line& line);  // the next frame of the link
  void claim(engine::ConnectionId id, Input& input);
  engine::ConnectionId some_line(Input& input) const;
  engine::Bytes well_formed(Input& input);
  engine::Bytes connector_frame(Input& input, std::uint32_t kind) const;
  engine::Bytes channel_frame(Input& input, std::uint32_t kind) const;
  engine::Bytes path_frame(Input& input, std::uint32_t kind) const;
  std::vector<engine::WirePath> peer_paths(Input& input) const;

  // The device, and the peer's writes.
  void announce(Input& input);
  void write_cts_entry(Input& input);
  void write_record(Input& input);
  void write_window(Input& input);
  void write_anywhere(Input& input);
  void complete(Input& input);

  // The application.
  void listen(Input& input);
  void connect(Input& input);
  void accept(Input& input);
  void start_send(Input& input);
  void start_receive(Input& input);
  void start(Input& input, bool sends);
  void test_all(Input& input);
  void register_some(Input& input);
  void close_some(Input& input);
  void close_context(Input& input);
  void adopt(Channel* channel);
  AppChannel* some_channel(Input& input);
  void drop_channels();

  std::atomic<std::uint64_t> clock_ns_{1'000'000};
  Said said_;
  MemoryPlane* plane_ = nullptr;
  testkit::EngineHost<FuzzVerbs> host_;
  Context* context_ = nullptr;
  Listener* listener_ = nullptr;
  HandleBytes own_handle_{}, peer_handle_{};
  engine::Id128 context_id_{}, nonce_{};
  std::array<std::vector<std::byte>, kBuffers> buffers_;
  std::vector<AppChannel> channels_;
};

}  // namespace mesh::fuzz

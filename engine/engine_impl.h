#pragma once
// The engine behind mesh::Engine: rails, contexts, listeners, and the control path that serves
// their links. Thread: public calls any; private ones under mutex_. Lock order: mutex_, then a
// loop's progress lock, then the mutex of a registration table. Bounds: those of contexts and
// links.

#include <mesh/engine.h>
#include <mesh/snapshot.h>

#include "engine/card_returns.h"
#include "engine/control/control_plane.h"
#include "engine/figures.h"
#include "engine/latency_watch.h"
#include "engine/link/cable_proofs.h"
#include "engine/link/context.h"
#include "engine/link/link.h"
#include "engine/link/links.h"
#include "engine/link/reception.h"
#include "engine/link/relay/neighbours.h"
#include "engine/link/relay/relay_client.h"
#include "engine/link/relay/relay_service.h"
#include "engine/link/test_hooks.h"
#include "engine/link_services.h"
#include "engine/pollers.h"
#include "engine/port_events.h"
#include "engine/request_watch.h"
#include "engine/silence_watch.h"
#include "src/base/clock.h"
#include "src/base/log_budget.h"
#include "src/base/thread_pool.h"
#include "src/verbs/discovery.h"

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace mesh::engine {

class EngineImpl final : public Engine,
                         private ControlEvents,
                         private ControlWaker,
                         private ChannelOwner {
 public:
  explicit EngineImpl(const EngineOptions& options);
  ~EngineImpl() override;
  void end() noexcept override;
  Status start();
  Status open_plane();

  std::span<const RailInfo> rails() const noexcept override { return rail_infos_; }
  EngineStats stats() const override;
  EngineSnapshot snapshot() const override;
  Result<Context*> open_context(const ContextOptions& options) override;
  void close_context(Context* context) noexcept override;
  void set_traffic_class(Context& context, int traffic_class) override;
  bool waits_for_peers() const override;
  bool carries_for_others() const override;
  void exit_process() noexcept override;
  Result<Listener*> listen(Context& context, int rail, HandleBytes& handle) override;
  void close_listener(Listener* listener) noexcept override;
  Result<Channel*> connect(Context& context, int rail, HandleBytes& handle) override;
  Result<Channel*> accept(Listener& listener) override;
  bool poll_loop(Context& context) override { return context.loop.try_turn(); }
  // Moves what this process carries for other hosts, and returns how much it moved. With
  // Threading::Manual poll_control() does it too.
  std::uint32_t turn_relay() noexcept { return relay_service_.turn(); }
  bool poll_control() override;

 private:
  using Lock = std::unique_lock<ControlMutex>;

  // ---- Life and threads.
  Status configure_pollers();
  void fit_to_device(const verbs::Rail& rail);
  void control_thread();
  int idle_wait_ms() const;
  bool poll_control_locked();
  bool turn_devices();
  void tend_links();
  Status open_devices(std::span<const std::unique_ptr<DeviceContext>> devices, Lock& lock);
  bool wait_for(Lock& lock, std::uint64_t bound_ns, const std::function<bool()>& done);
  void begin_close(Context& context);
  void end_relays(Lock& lock);
  void reap_contexts();
  void destroy_context(Context& context);

  // ---- Connections.
  Result<Channel*> first_connect(Context& context, std::uint32_t rail, HandleBytes& bytes);
  Result<Channel*> later_connect(HandleBytes& bytes);
  void decline_version(const HandleBytes& bytes);
  void start_polling(Context& context, std::uint32_t rail);

  // ---- Events of the control plane and of devices.
  void on_dialed(ConnectionId id) override;
  bool on_frame(ConnectionId id, const FrameHeader& header,
                std::span<const std::byte> body) override;
  void on_lost(ConnectionId id, Errc reason, const std::string& text) override;
  void on_readable(int fd) override;

  // ---- Requests of loops and channels.
  void wake_control() noexcept override { plane_->wake(); }
  void guard_ended() noexcept override {
    if (hooks_.between_guards) hooks_.between_guards();
  }
  Result<Registration*> register_memory(Channel& channel, const MemoryRange& range) override;
  void deregister_memory(Channel& channel, Registration& registration) noexcept override;
  void close_channel(Channel& channel) noexcept override;
  PeerLog& peer_log() noexcept override { return peer_log_; }

  EngineOptions options_;  // constant after start()
  const TestHooks& hooks_;
  const Settings& settings_;
  const Clock clock_;
  std::vector<verbs::Rail> rails_;
  std::vector<RailInfo> rail_infos_;  // NCCL's devices: the first of the rails
  std::vector<RefusedPort> refused_ports_;
  std::vector<std::string> notes_;  // about rails that share a subnet

  mutable ControlMutex mutex_;
  std::condition_variable_any changed_;  // notified at the end of every control pass
  std::unique_ptr<ControlPlane> plane_;
  PeerLog peer_log_{options_.provider->host_name()};  // outlives all links
  ThreadPool pool_{"mesh-bring-up"};                  // outlives all that it brings up
  std::vector<std::unique_ptr<Context>> contexts_;
  std::vector<std::unique_ptr<PendingConnect>> stages_;  // by ConnectStage::index - 1
  Pollers pollers_;
  std::thread thread_;
  bool stopping_ = false, ended_ = false;
  LogBudget unauthenticated_lines_;  // for lines about unauthenticated connections that we refuse
  RequestWatch watch_;
  Figures figures_;
  LinkServices services_;
  SilenceWatch silence_watch_;
  LatencyWatch latency_watch_;
  const bool times_paths_;
  CableProofs cables_;  // outlives all links
  Neighbours neighbours_;
  Links links_;
  RelayClient relay_client_;
  RelayService relay_service_;
  Reception reception_;
  PortEvents port_events_;
  CardReturns card_returns_;
};

}  // namespace mesh::engine

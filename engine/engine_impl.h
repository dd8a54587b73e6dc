#pragma once
// The engine behind mesh::Engine: rails, contexts, listeners, and the control path that serves
// their links. Thread: public calls any; private ones under mutex_. Lock order: mutex_, then a
// loop's token, then a registration table's. Bounds: those of contexts and links.

#include <mesh/engine.h>

#include "engine/control/control_plane.h"
#include "engine/control_mutex.h"
#include "engine/figures.h"
#include "engine/link/context.h"
#include "engine/link/link.h"
#include "engine/link_services.h"
#include "engine/pollers.h"
#include "engine/request_watch.h"
#include "src/base/clock.h"
#include "src/base/log_budget.h"
#include "src/verbs/discovery.h"

#include <algorithm>
#include <condition_variable>
#include <exception>
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
  Status start();

  std::span<const RailInfo> rails() const noexcept override { return rail_infos_; }
  EngineStats stats() const override;
  EngineSnapshot snapshot() const override;
  Result<Context*> open_context(const ContextOptions& options) override;
  void close_context(Context* context) noexcept override;
  Result<Listener*> listen(Context& context, int rail, HandleBytes& handle) override;
  void close_listener(Listener* listener) noexcept override;
  Result<Channel*> connect(Context& context, int rail, HandleBytes& handle) override;
  Result<Channel*> accept(Listener& listener) override;
  bool poll_loop(Context& context) override { return context.loop.try_turn(); }
  bool poll_control() override;

 private:
  using Lock = std::unique_lock<ControlMutex>;

  // ---- Life, threads and memory.
  bool poll_control_locked();
  void end_link_of(ConnectionId id, const char* what) noexcept;
  int idle_wait_ms() const;
  void control_thread();
  void wake_control() noexcept override { plane_->wake(); }
  bool wait_for(Lock& lock, std::uint64_t bound_ns, const std::function<bool()>& done);
  void begin_close(Context& context);
  bool all_said_close(Context& context) const;
  void reap_contexts();
  Status configure_pollers();
  void fit_to_device(const verbs::Rail& rail);
  void destroy_context(Context& context);

  // ---- Connections.
  Result<Channel*> first_connect(Context& context, std::uint32_t rail, HandleBytes& bytes);
  Result<Channel*> later_connect(HandleBytes& bytes);
  Link* link_to(Context& context, const Id128& peer_context);
  Link& add_connector(Context& context, const Id128& peer_context);
  void start_polling(Context& context, std::uint32_t rail);

  // ---- Frames.
  void on_dialed(ConnectionId id) override;
  void greet(ConnectionId id);
  bool on_frame(ConnectionId id, const FrameHeader& header,
                std::span<const std::byte> body) override;
  bool take_frame(ConnectionId id, const FrameHeader& header, std::span<const std::byte> body);
  bool on_stranger(ConnectionId id, const FrameHeader& header, std::span<const std::byte> bytes);
  bool on_hello(ConnectionId id, const FrameHeader& header, std::span<const std::byte> bytes);
  void welcome(Link& link, const Hello& hello, std::vector<WirePath> paths);
  bool on_link_frame(Link& link, const FrameHeader& header, std::span<const std::byte> bytes);
  bool on_welcome(Link& link, const Welcome& body);
  bool on_attach(Link& link, const Attach& body);
  bool on_ready(Link& link, const Ready& body);
  bool some_path_is_left(const Link& link, const std::vector<std::uint8_t>& down);
  bool on_refuse(Link& link, const Refuse& body);
  bool build_link(Link& link, const TransferPolicy& policy, const std::vector<WirePath>& paths);
  void refuse(ConnectionId id, const Id128& link, const Refuse& body);
  Link* find_link(ConnectionId id);
  std::vector<WireRail> wire_rails() const;

  // ---- Handshakes that stand still.
  void enter(Link& link, LinkState state);  // a step of the handshake, whose time begins
  void tend_handshake(Link& link);
  void give_up(Link& link, const char* what);
  bool say_hello_again(Link& link, Errc reason);
  bool make_room(std::span<const Id128> named);
  void send_away(Link& link, const std::string& why);
  void turn_away(ConnectionId id, const Id128& link);
  bool dials_anew(Link& link, const Refuse& body);
  void dial_anew(Link& link, std::uint64_t pause_ns);

  // ---- Queue pairs to RTS.
  Settings settings_of(const Context& context) const;
  void bring_up(Link& link, const std::vector<WirePath>& paths,
                const std::vector<std::uint8_t>& down);
  void begin_bring_up(Link& link, BringUp::Order order);
  void start_bring_ups();
  void tend_bring_up(Link& link);
  static WirePath offer_path(Link& link, std::uint32_t index, std::uint32_t psn);
  static void set_peer_windows(Path& path, const WirePath& peer);
  void attach(Link& link, const BringUp& done);
  void ready(Link& link, const BringUp& done);
  void leave_out(Link& link, const std::vector<std::uint8_t>& down);

  // ---- Lost paths.
  bool tend_paths(Link& link);
  bool tend_path(Link& link, std::uint32_t index);
  bool fence_path(Link& link, std::uint32_t index);
  bool say_fence(Link& link, std::uint32_t index);
  bool on_fence(Link& link, const Fence& body);
  void note_stall(Link& link);
  void note_admitted(Link& link);

  // ---- Paths opened again.
  bool reopen_path(Link& link, std::uint32_t index);
  bool begin_reopen(Link& link, std::uint32_t index);
  bool answer_reopen(Link& link, std::uint32_t index);
  bool probe_path(Link& link, std::uint32_t index);
  void reopen_risen(Link& link, const BringUp& done);
  void refuse_reopen(Link& link, const Reopen& asked, const std::string& why);
  void raise(Link& link, std::uint32_t index, const WirePath& peer);
  void give_up_try(Link& link, std::uint32_t index, const std::string& why);
  bool make_again(Link& link, std::uint32_t index, std::uint32_t epoch, std::string* why);
  void admit_path(Link& link, std::uint32_t index);
  bool on_reopen(Link& link, const Reopen& body);
  bool on_reopened(Link& link, const Reopened& body);
  bool on_path_up(Link& link, const PathUp& body);

  // ---- Devices.
  void watch_devices();
  void on_readable(int fd) override;
  void on_device_event(std::uint32_t rail, const verbs::DeviceEvent& event);
  void on_port_change(std::uint32_t rail, bool up);

  // ---- Connections that are lost.
  void on_lost(ConnectionId id, Errc reason, const std::string& text) override;
  void take_loss(ConnectionId id, Errc reason, const std::string& text);
  Link* find_redial(ConnectionId id);
  Link* find_claimed(LinkRole role, const Id128& link, const LinkClaim& claim);
  bool on_resume(ConnectionId id, const FrameHeader& header, const Resume& body);
  bool on_summon(ConnectionId id, const FrameHeader& header, const Summon& body);
  void deny(ConnectionId id, const Link* link, const Id128& link_id);

  // ---- What channels ask for; tending links.
  Result<Registration*> register_memory(Channel& channel, const SendArgs& range,
                                        MemoryType type) override;
  void deregister_memory(Channel& channel, Registration& registration) noexcept override;
  void close_channel(Channel& channel) noexcept override;
  bool tend(Link& link);  // true: needs tending again soon
  bool tend_safely(Link& link) noexcept;
  bool tend_links();
  void reap_links(Context& context);
  Link& link_of(Channel& channel);

  EngineOptions options_;  // constant after start()
  const Settings& settings_;
  const Clock clock_;
  std::vector<verbs::Rail> rails_;
  std::vector<RailInfo> rail_infos_;

  mutable ControlMutex mutex_;
  std::condition_variable_any changed_;  // after every control pass that did something
  std::unique_ptr<ControlPlane> plane_;
  std::vector<std::unique_ptr<Context>> contexts_;
  std::vector<std::unique_ptr<PendingConnect>> stages_;  // by stage index
  Pollers pollers_;
  std::thread thread_;
  bool stopping_ = false;
  LogBudget stranger_lines_;  // about those whom we refuse
  RequestWatch watch_;
  Figures figures_;
  LinkServices services_;
};

}  // namespace mesh::engine

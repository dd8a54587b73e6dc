#pragma once
// The engine behind mesh::Engine: rails, contexts, the control path. Its work is spread over files
// by theme: engine_impl.cc (life, threads), connect.cc (listen, connect, accept, channels opened),
// handshake.cc (frames that build links), bring_up.cc (their queue pairs), half_open.cc (those that
// stand still), resume.cc (connections that are lost and come back), take_back.cc (deregistration,
// close, revoke, failure), port_events.cc (what devices say). Thread: public calls any; private
// ones under mutex_. Lock order: mutex_, then a loop's token, then a registration table's.

#include <mesh/engine.h>

#include "engine/context.h"
#include "engine/control/control_plane.h"
#include "engine/link/link_control.h"
#include "engine/peer_ledger.h"
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
  using Lock = std::unique_lock<std::mutex>;

  // ---- engine_impl.cc
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

  // ---- connect.cc
  Result<Channel*> first_connect(Context& context, std::uint32_t rail, HandleBytes& bytes);
  Result<Channel*> later_connect(HandleBytes& bytes);
  LinkControl* link_to(Context& context, const Id128& peer_context);
  static LinkControl& add_connector(Context& context, const Id128& peer_context);
  void open_channel(PendingConnect& stage);
  void start_polling(Context& context, std::uint32_t rail);
  void fail_stage(PendingConnect& stage, Errc why) noexcept;
  bool on_open(LinkControl& link, const Open& body);
  void settle_old_life(LinkControl& link, std::uint32_t index);
  bool on_opened(LinkControl& link, const Opened& body);
  void open_channel_at(PendingConnect& stage, std::uint32_t index);

  // ---- handshake.cc
  void on_dialed(ConnectionId id) override;
  void greet(ConnectionId id);
  bool on_frame(ConnectionId id, const FrameHeader& header,
                std::span<const std::byte> body) override;
  bool take_frame(ConnectionId id, const FrameHeader& header, std::span<const std::byte> body);
  bool on_stranger(ConnectionId id, const FrameHeader& header, std::span<const std::byte> bytes);
  bool on_hello(ConnectionId id, const FrameHeader& header, std::span<const std::byte> bytes);
  void welcome(LinkControl& link, const Hello& hello, std::vector<WirePath> paths);
  bool on_link_frame(LinkControl& link, const FrameHeader& header,
                     std::span<const std::byte> bytes);
  bool on_welcome(LinkControl& link, const Welcome& body);
  bool on_attach(LinkControl& link, const Attach& body);
  bool on_ready(LinkControl& link, const Ready& body);
  bool some_path_is_left(const LinkControl& link, const std::vector<std::uint8_t>& down);
  bool on_refuse(LinkControl& link, const Refuse& body);
  bool build_link(LinkControl& link, const TransferPolicy& policy,
                  const std::vector<WirePath>& paths);
  void announce_link(const LinkControl& link) const;
  void refuse(ConnectionId id, const Id128& link, const Refuse& body);
  template <typename Body>
  void send(LinkControl& link, const Body& body) noexcept {
    try {
      say(link, encode(link.conversation.next_header(link.identity.id), body));
    } catch (const std::exception&) {
      link.unsaid = true;
      busy_ = true;
    }
  }
  LinkControl* find_link(ConnectionId id);
  std::vector<WireRail> wire_rails() const;

  // ---- half_open.cc
  void enter(LinkControl& link, LinkState state);  // a step of the handshake, whose time begins
  void tend_handshake(LinkControl& link);
  void give_up(LinkControl& link, const char* what);
  bool say_hello_again(LinkControl& link, Errc reason);
  bool may_cause_lines(const LinkControl& link);
  bool complain(const LinkControl& link, const std::string& text);
  bool make_room(std::span<const Id128> named);
  void send_away(LinkControl& link, const std::string& why);
  void turn_away(ConnectionId id, const Id128& link);
  bool dials_anew(LinkControl& link, const Refuse& body);
  void dial_anew(LinkControl& link, std::uint64_t pause_ns);

  // ---- bring_up.cc
  Settings settings_of(const Context& context) const;
  void bring_up(LinkControl& link, const std::vector<WirePath>& paths,
                const std::vector<std::uint8_t>& down);
  void begin_bring_up(LinkControl& link, BringUp::Order order);
  void start_bring_ups();
  void tend_bring_up(LinkControl& link);
  static WirePath offer_path(LinkControl& link, std::uint32_t index, std::uint32_t psn);
  static void set_peer_windows(Path& path, const WirePath& peer);
  void attach(LinkControl& link, const BringUp& done);
  void ready(LinkControl& link, const BringUp& done);
  void leave_out(LinkControl& link, const std::vector<std::uint8_t>& down);
  static void end_queue_pairs(PeerLink& link);

  // ---- recovery.cc
  bool tend_paths(LinkControl& link);
  bool tend_path(LinkControl& link, std::uint32_t index);
  bool fence_path(LinkControl& link, std::uint32_t index);
  bool say_fence(LinkControl& link, std::uint32_t index);
  bool on_fence(LinkControl& link, const Fence& body);
  void note_stall(LinkControl& link);
  void note_admitted(LinkControl& link);

  // ---- reopen.cc
  bool reopen_path(LinkControl& link, std::uint32_t index);
  bool begin_reopen(LinkControl& link, std::uint32_t index);
  bool answer_reopen(LinkControl& link, std::uint32_t index);
  bool probe_path(LinkControl& link, std::uint32_t index);
  void reopen_risen(LinkControl& link, const BringUp& done);
  void refuse_reopen(LinkControl& link, const Reopen& asked, const std::string& why);
  void raise(LinkControl& link, std::uint32_t index, const WirePath& peer);
  void give_up_try(LinkControl& link, std::uint32_t index, const std::string& why);
  bool make_again(LinkControl& link, std::uint32_t index, std::uint32_t epoch, std::string* why);
  void admit_path(LinkControl& link, std::uint32_t index);
  bool on_reopen(LinkControl& link, const Reopen& body);
  bool on_reopened(LinkControl& link, const Reopened& body);
  bool on_path_up(LinkControl& link, const PathUp& body);
  void tend_at(std::uint64_t at_ns) noexcept { tend_at_ns_ = std::min(tend_at_ns_, at_ns); }

  // ---- port_events.cc
  void watch_devices();
  void on_readable(int fd) override;
  void on_device_event(std::uint32_t rail, const verbs::DeviceEvent& event);
  void on_port_change(std::uint32_t rail, bool up);

  // ---- snapshot.cc
  void settle(const LinkControl& link) noexcept;
  std::vector<RailSnapshot> rail_states() const;

  // ---- resume.cc
  void on_lost(ConnectionId id, Errc reason, const std::string& text) override;
  void take_loss(ConnectionId id, Errc reason, const std::string& text);
  void say(LinkControl& link, Bytes frame);
  void acknowledge(LinkControl& link);
  bool on_acknowledge(LinkControl&, const Acknowledge&) { return true; }  // its header was all
  bool is_over(const LinkControl& link) const;
  bool await_resume(LinkControl& link, Errc reason, const std::string& text);
  void end_link(LinkControl& link, Errc why, const std::string& text);
  void note_address(LinkControl& link);
  LinkControl* find_redial(ConnectionId id);
  LinkControl* find_claimed(LinkRole role, const Id128& link, const LinkClaim& claim);
  void redial(LinkControl& link);
  bool redial_met_another(const LinkControl& link) const;
  void stop_redial(LinkControl& link);
  void on_redialed(LinkControl& link);
  bool on_redial_frame(LinkControl& link, const FrameHeader& header,
                       std::span<const std::byte> bytes);
  void on_redial_lost(LinkControl& link, Errc reason, const std::string& text);
  bool on_resume(ConnectionId id, const FrameHeader& header, const Resume& body);
  bool on_summon(ConnectionId id, const FrameHeader& header, const Summon& body);
  void deny(ConnectionId id, const LinkControl* link, const Id128& link_id);
  void go_on(LinkControl& link, ConnectionId connection);
  bool tend_redial(LinkControl& link);

  // ---- take_back.cc
  Result<Registration*> register_memory(Channel& channel, const SendArgs& range,
                                        MemoryType type) override;
  void deregister_memory(Channel& channel, Registration& registration) noexcept override;
  void close_channel(Channel& channel) noexcept override;
  void revoke_receives(LinkControl& link, RecvChannel& channel, Lock& lock);
  void finish_sends(LinkControl& link, SendChannel& channel, Lock& lock);
  void fence(LinkControl& link);
  std::uint64_t patience_ns(const LinkControl& link) const;
  bool on_revoke(LinkControl& link, const Revoke& body);
  bool on_revoked(LinkControl& link, const Revoked& body);
  bool on_close(LinkControl& link, const Close& body);
  bool on_bye(LinkControl& link, const Bye& body);
  bool answer_revoke(LinkControl& link, const Revoke& body);
  bool act_on_close(LinkControl& link, const LinkControl::PendingClose& pending);
  bool advance_close(LinkControl& link, std::uint32_t index);
  void begin_close(Channel& channel);
  void say_bye_if_empty(LinkControl& link);
  bool tend(LinkControl& link);  // true: needs tending again soon
  bool tend_safely(LinkControl& link) noexcept;
  bool tend_links();
  void reap_links(Context& context);
  void take_down(LinkControl& link, Errc why) noexcept;
  LinkControl& control_of(Channel& channel);

  EngineOptions options_;  // constant after start()
  const Settings& settings_;
  const Clock clock_;
  std::vector<verbs::Rail> rails_;
  std::vector<RailInfo> rail_infos_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;  // after every control pass that did something
  std::unique_ptr<ControlPlane> plane_;
  std::vector<std::unique_ptr<Context>> contexts_;
  std::vector<std::unique_ptr<PendingConnect>> stages_;  // by stage index
  Pollers pollers_;
  std::thread thread_;
  bool stopping_ = false;
  bool busy_ = false;                      // something must be looked at again in a millisecond
  std::uint64_t tend_at_ns_ = UINT64_MAX;  // not later than this links must be looked at again
  std::uint64_t revokes_ = 0;
  LogBudget stranger_lines_;  // about those whom we refuse
  RequestWatch watch_;
  PeerLedger ended_;          // what links that are gone have counted
  LoopCounters ended_loops_;  // and the loops of contexts that are
  std::uint64_t resumes_ = 0;
};

}  // namespace mesh::engine

#pragma once
// One seed's world on one thread: hosts with the engine as it is, the software fabric, a control
// network, one clock moved by hand. The seed decides which host turns next, what its user does and
// what fails, so a seed is a run.

#include <mesh/engine.h>

#include "tests/sim/channel_run.h"
#include "tests/sim/control_network.h"
#include "tests/sim/counter_watch.h"
#include "tests/sim/counting_provider.h"
#include "tests/sim/group_run.h"
#include "tests/sim/loss_watch.h"
#include "tests/sim/memory.h"
#include "tests/sim/other_jobs.h"
#include "tests/sim/scenario.h"
#include "tests/sim/trace.h"
#include "tests/unit/engine/engine_host.h"

namespace mesh::sim {

struct Tally {
  std::uint64_t steps = 0, received = 0, faults = 0, path_faults = 0, aborts = 0, failed = 0,
                fences = 0;
};

class World {
 public:
  World(const Scenario& scenario, Trace& trace, std::atomic<std::uint64_t>& clock_ns);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  // Runs all traffic and all endings, then closes everything. The trace says what is wrong.
  void run();
  const Tally& tally() const noexcept { return tally_; }

  // ---- For channels.
  const Scenario& scenario() const noexcept { return scenario_; }
  Random& random() noexcept { return random_; }
  Trace& trace() noexcept { return trace_; }
  std::uint64_t now_ns() const noexcept { return clock_ns_.load(std::memory_order_relaxed); }
  Target& target() noexcept { return target_; }
  Engine& engine_of(std::size_t context) { return *processes_[contexts_[context].process].engine; }
  Context& context(std::size_t context) { return *contexts_[context].context; }
  ChannelRun& channel(std::size_t number) { return *channels_[number]; }
  // Returns whether some call waits; nothing else that waits may begin then.
  bool nested() const noexcept { return waiting_process_ != SIZE_MAX; }
  void wait_begins(std::size_t context) { waiting_process_ = contexts_[context].process; }
  void wait_ends(std::size_t) { waiting_process_ = SIZE_MAX; }
  void progress() noexcept;  // notes that a user has come a step further
  // Returns whether the context's host has a byte of the memory registered.
  bool registers(std::size_t context, std::span<const std::byte> memory) const {
    return processes_[contexts_[context].process].provider->registers(memory);
  }
  void count_received() noexcept { ++tally_.received; }
  // Begins and ends a call in which a channel takes memory back. The call may cut the channel's
  // link, and where a card hangs it returns long after that.
  void taking_back_begins(std::size_t context, const ChannelRun& cause);
  // Excuses what fails by the cut of such a call. Called before a request that failed is judged.
  void see_cut();
  void taking_back_ends(std::size_t context);
  bool keepers_stay();  // whether channels of neighbours still serve the relayed ones

 private:
  // A side of a channel, or a member of a group.
  struct UserSide {
    std::size_t channel = 0;
    bool sends = false;
    std::size_t group = SIZE_MAX, rank = 0;  // SIZE_MAX: it is of a channel
  };
  // One of the processes that are a host.
  struct Process : testkit::EngineHost<CountingProvider> {
    std::vector<UserSide> sides;
    CounterWatch counters;
    std::uint64_t passes = 0;  // of its control plane
    std::uint64_t slowness = 1;
    std::uint64_t paused_until_ns = 0;
    bool alive = true;
    bool on = true;  // its host is there, so that its NICs work
  };
  struct ContextState {
    std::size_t host = 0, process = 0;
    std::uint64_t abort_at = UINT64_MAX;
    Context* context = nullptr;  // null: closed, or not begun
    bool begun = true;
  };

  // world.cc
  void open_process(std::size_t number);
  void add_channels();
  void begin_contexts();
  void begin_context(std::size_t number);
  void pass(std::uint64_t time_ns);
  bool is_due(std::size_t context) const;
  bool has_begun(const ChannelRun& channel) const;  // both communicators
  void add_groups();
  bool runs(const Process& process) const;
  void step();
  void turn(std::size_t number);
  void user_acts(Process& process);
  Side& side_of(const UserSide& user);
  bool over(const UserSide& user);
  bool sweep();
  void jump();
  void while_waiting();
  bool traffic_over() const;
  void abort_contexts();
  void abort_context(std::size_t number);
  void on_cut(const ChannelRun& cause);
  void excuse_aborted(std::size_t number);
  void close_one(std::size_t number);
  void watch_for_stillness();
  void watch_counters(Process& process);
  void watch_losses();
  bool port_up(const soft::NicRef& nic);
  void between_guards();
  void on_close(const CloseSaid& said);

  // world_faults.cc
  void arm_lateness();
  void apply_faults();
  void apply(const FaultPlan& fault);
  void fail_nics(const FaultPlan& fault, const soft::Fault& what);
  void lose_host(const FaultPlan& fault);
  std::vector<std::size_t> struck_by(const FaultPlan& fault) const;
  soft::FaultPlan& faults_of(std::size_t host);
  void end_process(std::size_t number, ControlNetwork::End end);
  void end_host(std::size_t number);
  void lose_control(const FaultPlan& fault, std::uint32_t young);
  void silence_control(const FaultPlan& fault);
  void excuse_hosts(std::size_t host, std::size_t other, Excuses excuses);
  void excuse_everybody(std::size_t host);
  void excuse_handshake(ChannelRun& channel) const;
  void excuse_process(std::size_t number);
  bool is_of(const ChannelRun& channel, std::size_t process) const;
  bool alive(std::size_t host) const;
  void excuse_groups(Excuses excuses);
  bool joins(const ChannelRun& channel, std::size_t host, std::size_t other) const;
  bool outlived(std::uint64_t trouble_ns);
  bool relayed_all(bool (ChannelRun::*what)() const) const;
  void excuse_relayed(bool carried_too);
  void excuse_refusals();
  void excuse_lack_of_ways();
  void excuse_silence(const FaultPlan& fault);
  void watch_chains(const EngineSnapshot& shot);
  void watch_routes(std::size_t process, const EngineSnapshot& shot);
  void watch_silence(const EngineSnapshot& shot);
  void mute_nic(const FaultPlan& fault);
  void replace_card(const FaultPlan& fault);
  void kill_queue(const FaultPlan& fault);
  void take_port(const soft::NicRef& nic, const soft::Fault& what);
  void watch_calm(std::size_t process, const EngineSnapshot& shot);
  void move_cables(const FaultPlan& fault);
  void break_queue_pair();
  void leave(std::uint64_t own_faults = 0);
  void exit_process(std::size_t number, bool finalizes);

  // world_end.cc
  void end();
  void check_counters();
  void check_paths();
  void check_cables();
  void check_ways();
  bool quiet() const;
  void check_nothing_left();
  std::string what_is_left(const Process& process) const;

  const Scenario scenario_;
  soft::FabricFile fabric_;  // the scenario's, with the cables where they are now
  Trace& trace_;
  std::atomic<std::uint64_t>& clock_ns_;
  Random random_;
  ControlNetwork control_;
  Target target_;
  std::vector<Process> processes_;
  OtherJobs other_jobs_;  // their devices are those of the hosts
  std::vector<ContextState> contexts_;
  std::vector<std::unique_ptr<ChannelRun>> channels_;
  std::vector<std::unique_ptr<GroupRun>> groups_;
  Tally tally_;
  bool moved_ = false;  // since the last look for stillness
  std::uint64_t idle_steps_ = 0;
  std::uint64_t leap_ns_ = 0;  // of the next jump
  std::uint64_t progress_at_ns_ = 0, progress_at_step_ = 0;
  std::size_t waiting_process_ = SIZE_MAX;
  const ChannelRun* taking_back_ = nullptr;
  std::uint64_t cuts_seen_ = 0;
  std::size_t next_fault_ = 0;
  bool reset_in_silence_ = false;  // a control connection has ended in an outage of the network
  std::uint64_t trouble_ns_ = 0;   // how long ports were down and hosts stood still, added up
  std::uint64_t fault_at_ns_ = 0;  // when the last one was applied
  bool over_ = false;              // the world is being taken apart
  bool left_ = false;              // some host is no longer there for others
  bool silent_ = false;            // some host says nothing for as long as a chain waits for it
  std::uint64_t paused_ns_ = 0;    // of all hosts
  bool muted_ = false;             // some card has completed nothing for a while

  // ---- Other threads, and what is lost.
  Random switching_, works_;   // works_: when devices do what waits for them
  bool switched_ = false;      // between_guards() runs, or may not
  std::uint64_t breaks_left_;  // queue pairs that may still fail there
  FenceWatch fences_;
  CalmWatch calm_;
  PortWatch ports_;
  LossWatch losses_;
  std::uint64_t lost_ns_ = 0;  // when a host was killed or unplugged; 0: none was
  // The newest outage of control, by which a lost host may have been silent before.
  std::size_t outage_host_ = 0, outage_other_ = 0;
  std::uint64_t outage_ns_ = 0;
};

}  // namespace mesh::sim

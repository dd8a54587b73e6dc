#include "tests/sim/world.h"

#include "engine/data/device_context.h"
#include "engine/link/test_hooks.h"
#include "src/base/timeouts.h"
#include "tests/unit/soft/open_host.h"

namespace mesh::sim {
namespace {
constexpr std::uint64_t kStepNsMax = 2'000;
constexpr std::uint64_t kLeapFirstNs = 1'000, kLeapMaxNs = 20'000'000;
// Longer than every bound of the engine together: 20 s until a silent host is noticed, 10 s a dial,
// NCCL_MESH_PATH_TIMEOUT.
constexpr std::uint64_t kStuckNs = 200'000'000'000;
constexpr std::uint64_t kStuckStepsMin = 20'000;
constexpr std::uint64_t kSwitchingStream = 14, kWorksStream = 16;  // of Random
constexpr std::uint64_t kBreaksMax = 8, kBreakOneIn = 40, kTurnsMax = 24;
constexpr std::uint64_t kLossSlackNs = 2'000'000'000;
// The network reports a silent connection after up to a quarter more than the engine's setting.
constexpr std::uint64_t kControlSilenceMaxNs = kSilenceToDeadHostMs * kNsPerMs / 4 * 5;
}  // namespace

World::World(const Scenario& scenario, Trace& trace, std::atomic<std::uint64_t>& clock_ns)
    : scenario_(scenario),
      fabric_(scenario.fabric),
      trace_(trace),
      clock_ns_(clock_ns),
      random_(scenario.seed, 2),
      control_(Clock(&clock_ns), scenario_, trace),
      other_jobs_(scenario, trace),
      leap_ns_(kLeapFirstNs),
      switching_(scenario.seed, kSwitchingStream),
      works_(scenario.seed, kWorksStream),
      breaks_left_(switching_.below(kBreaksMax)),
      calm_(scenario_.processes),
      ports_(scenario_.processes) {
  if (scenario_.control_over_cables) {
    control_.run_over(std::make_unique<ControlWays>(
        scenario_.fabric, [this](const soft::NicRef& nic) { return port_up(nic); }));
  }
  control_.set_timing(scenario_.control);
  control_.on_close([this](const CloseSaid& said) { on_close(said); });
  processes_.resize(scenario_.processes.size());
  for (std::size_t i = 0; i < processes_.size(); ++i) open_process(i);
  for (const ContextPlan& plan : scenario_.contexts) {
    contexts_.push_back({.host = plan.host,
                         .process = plan.process,
                         .abort_at = plan.abort_at,
                         .begun = plan.begins_with == SIZE_MAX});
    if (!contexts_.back().begun) continue;
    const Result<Context*> made = processes_[plan.process].engine->open_context(
        {.communicator_id = scenario_.communicator_id});
    if (!made.ok()) throw std::runtime_error("a context does not open");
    contexts_.back().context = *made;
  }
  add_channels();
  add_groups();
  arm_lateness();
  excuse_refusals();
  excuse_lack_of_ways();
}

void World::add_channels() {
  for (std::size_t i = 0; i < scenario_.channels.size(); ++i) {
    const ChannelPlan& plan = scenario_.channels[i];
    channels_.push_back(std::make_unique<ChannelRun>(*this, i, plan));
    processes_[contexts_[plan.from].process].sides.push_back({.channel = i, .sends = true});
    processes_[contexts_[plan.to].process].sides.push_back({.channel = i, .sends = false});
  }
}

void World::add_groups() {
  for (std::size_t i = 0; i < scenario_.groups.size(); ++i) {
    const GroupPlan& plan = scenario_.groups[i];
    groups_.push_back(std::make_unique<GroupRun>(*this, i, plan));
    for (std::size_t rank = 0; rank < plan.contexts.size(); ++rank)
      processes_[contexts_[plan.contexts[rank]].process].sides.push_back(
          {.group = i, .rank = rank});
  }
}

World::~World() {
  over_ = true;
  groups_.clear();
  for (Process& process : processes_) process.engine.reset();
}

void World::open_process(std::size_t number) {
  const std::size_t host = scenario_.processes[number];
  const HostPlan& plan = scenario_.hosts[host];
  Process& process = processes_[number];
  process.slowness = plan.slowness;
  EngineOptions options;
  options.settings.timeout = scenario_.ack_timeout;
  options.settings.retry_count = scenario_.retries;
  options.settings.path_timeout_s = scenario_.path_timeout_s;
  options.settings.rails = scenario_.rails;
  options.settings.relay = plan.relays ? 1 : 0;
  options.settings.relay_bytes = plan.relay_mib << 20;
  options.settings.both_ways = scenario_.options.both_ways ? 1 : 0;
  if (scenario_.options.strange) options.settings.job = kSimulatedJob;
  options.settings.adaptive_routing = scenario_.adaptive_routing;
  options.settings.ar_threshold = scenario_.ar_threshold;
  options.policy = scenario_.policy;
  options.manual_clock_ns = &clock_ns_;
  options.threading = Threading::Manual;
  auto hooks = std::make_shared<engine::TestHooks>();
  hooks->while_waiting = [this] { while_waiting(); };
  // Credits that a mute card holds are found missing by their receive, which has them written
  // again.
  hooks->rewrites_late = scenario_.repeats || scenario_.uses_indices_again() ||
                         scenario_.options.mute || scenario_.wedges;
  hooks->timed_ns = scenario_.timed_ns;
  hooks->bring_up_ns = plan.bring_up_ns;
  if (scenario_.switches_one_in != 0) hooks->between_guards = [this] { between_guards(); };
  if (scenario_.device_works_one_in != 0)
    hooks->device_works = [this] { return works_.one_in(scenario_.device_works_one_in); };
  if (scenario_.wedges) {
    if (!hooks->device_works) hooks->device_works = [] { return true; };
    hooks->device_hangs = [this, number](const engine::DeviceContext& device) {
      const std::string nic = device.name().substr(0, device.name().find(':'));
      return processes_[number].provider->under().faults().mute(nic, now_ns());
    };
  }
  hooks->both_ways_bytes = scenario_.both_ways_bytes;
  hooks->control_network = &control_;
  options.hooks = std::move(hooks);
  control_.expect(number);
  process.open(std::make_unique<CountingProvider>(
                   testkit::open_host({.fabric = scenario_.fabric,
                                       .host = scenario_.fabric.hosts[host].name,
                                       .agent = soft::Agent::None,
                                       .clock = Clock(&clock_ns_)})),
               options, 0);
  if (scenario_.options.strange && number == host) other_jobs_.join(host, *process.provider);
}

void World::run() {
  progress();
  while (!traffic_over() && !trace_.violated()) {
    step();
    begin_contexts();
    apply_faults();
    abort_contexts();
    watch_for_stillness();
    watch_losses();
  }
  if (!trace_.violated()) end();
}

bool World::traffic_over() const {
  const auto is_over = [](const auto& each) { return each->over(); };
  return std::all_of(channels_.begin(), channels_.end(), is_over) &&
         std::all_of(groups_.begin(), groups_.end(), is_over);
}

bool World::has_begun(const ChannelRun& channel) const {
  return contexts_[channel.plan().from].begun && contexts_[channel.plan().to].begun;
}

// A communicator begins with its fault, or when nothing else is left to do: channels may wait for
// the end of its own.
bool World::is_due(std::size_t context) const {
  constexpr std::uint64_t kStillNs = 20'000'000'000;
  const ContextPlan& plan = scenario_.contexts[context];
  const std::size_t struck = plan.begins_with + 1;
  if (plan.begins_before && plan.begins_with < scenario_.faults.size() &&
      tally_.received >= scenario_.faults[plan.begins_with].at)
    return true;
  if (next_fault_ >= struck)
    return next_fault_ > struck || now_ns() >= fault_at_ns_ + plan.begins_ns;
  if (now_ns() >= progress_at_ns_ + kStillNs) return true;
  return std::all_of(channels_.begin(), channels_.end(), [this](const auto& channel) {
    return channel->over() || !has_begun(*channel);
  });
}

void World::begin_contexts() {
  for (std::size_t i = 0; i < contexts_.size(); ++i)
    if (!contexts_[i].begun && is_due(i) && runs(processes_[contexts_[i].process]))
      begin_context(i);
}

// Its devices take their time for protection domains, so that others go on, and cards may leave and
// come meanwhile.
void World::begin_context(std::size_t number) {
  constexpr std::uint64_t kCommandMaxNs = 500'000'000;
  ContextState& state = contexts_[number];
  CountingProvider& provider = *processes_[state.process].provider;
  bool passes = false;
  provider.before_answer = [&] {
    if (std::exchange(passes, true)) return;
    if (!random_.one_in(3)) pass(random_.below(kCommandMaxNs));
    passes = false;
  };
  trace_.note("context begins", {number});
  wait_begins(number);
  const Result<Context*> made = processes_[state.process].engine->open_context({});
  wait_ends(number);
  provider.before_answer = {};
  state.begun = true;
  if (!made.ok())
    return trace_.violate(fmt::format("a context does not open: {}", errc_name(made.code())));
  state.context = *made;
  progress();
}

// Lets everybody go on for so long, in steps that are too coarse for the time of a fence.
void World::pass(std::uint64_t time_ns) {
  constexpr std::uint64_t kPassStepNs = 1'000'000;
  fences_.excuse(now_ns() + time_ns);
  for (const std::uint64_t until_ns = now_ns() + time_ns; now_ns() < until_ns;) {
    clock_ns_.fetch_add(random_.below(kPassStepNs), std::memory_order_relaxed);
    for (std::size_t i = 0; i < 4 * processes_.size(); ++i) {
      ++tally_.steps;
      turn(random_.below(processes_.size()));
    }
    apply_faults();
  }
}

void World::progress() noexcept {
  moved_ = true;
  progress_at_ns_ = clock_ns_.load(std::memory_order_relaxed);
  progress_at_step_ = tally_.steps;
}

bool World::runs(const Process& process) const {
  return process.alive && process.engine != nullptr &&
         clock_ns_.load(std::memory_order_relaxed) >= process.paused_until_ns;
}

void World::step() {
  ++tally_.steps;
  if (random_.one_in(4)) clock_ns_.fetch_add(random_.below(kStepNsMax), std::memory_order_relaxed);
  turn(random_.below(processes_.size()));
  other_jobs_.act(now_ns());
}

// Lets the process take one step. A NIC works whatever its process does, unless the host is gone.
void World::turn(std::size_t number) {
  Process& process = processes_[number];
  if (!process.on) return;
  const std::uint64_t what = random_.below(8);
  if (what < 2) {
    moved_ |= process.provider->under().turn();
    return;
  }
  if (!runs(process) || (process.slowness > 1 && !random_.one_in(process.slowness))) return;
  if (what == 2) {
    moved_ |= process.engine->poll_control();
    watch_counters(process);
  } else if (what == 3) {
    ContextState& context = contexts_[random_.below(contexts_.size())];
    if (context.context != nullptr && &processes_[context.process] == &process)
      moved_ |= process.engine->poll_loop(*context.context);
  } else {
    user_acts(process);
  }
}

Side& World::side_of(const UserSide& user) {
  ChannelRun& channel = *channels_[user.channel];
  return user.sends ? channel.sender() : channel.receiver();
}

bool World::over(const UserSide& user) {
  if (user.group != SIZE_MAX) return groups_[user.group]->over(user.rank);
  return side_of(user).state == SideState::Over;
}

void World::user_acts(Process& process) {
  if (process.sides.empty()) return;
  const std::size_t at = random_.below(process.sides.size());
  const UserSide user = process.sides[at];
  if (over(user)) {
    process.sides.erase(process.sides.begin() + static_cast<std::ptrdiff_t>(at));
    return;
  }
  if (user.group != SIZE_MAX) return groups_[user.group]->act(user.rank);
  Side& side = side_of(user);
  if (contexts_[side.context].context != nullptr) channels_[user.channel]->act(side);
}

// Gives every process a turn of everything. Returns whether something moved.
bool World::sweep() {
  moved_ = false;
  for (Process& process : processes_) {
    if (!process.on) continue;
    moved_ |= process.provider->under().turn();
    if (!runs(process)) continue;
    moved_ |= process.engine->poll_control();
    for (ContextState& context : contexts_) {
      if (context.context != nullptr && &processes_[context.process] == &process)
        moved_ |= process.engine->poll_loop(*context.context);
    }
    user_acts(process);
  }
  return moved_;
}

// Moves the clock when nobody has anything to do: to the next event that is known, or a little
// further each time, because the engine's own deadlines are not known here.
void World::jump() {
  const std::uint64_t now_ns = clock_ns_.load(std::memory_order_relaxed);
  std::uint64_t to_ns = now_ns + leap_ns_;
  // An event that is already due waits for a host that stands still.
  if (control_.next_due_ns() > now_ns) to_ns = std::min(to_ns, control_.next_due_ns());
  for (const Process& process : processes_) {
    if (!process.on) continue;
    const std::uint64_t due_ns = process.provider->under().next_due_ns();
    if (due_ns > now_ns) to_ns = std::min(to_ns, due_ns);
  }
  clock_ns_.store(to_ns, std::memory_order_relaxed);
  leap_ns_ = std::min(2 * leap_ns_, kLeapMaxNs);
}

void World::watch_for_stillness() {
  if (moved_) {
    moved_ = false;
    idle_steps_ = 0;
    leap_ns_ = kLeapFirstNs;
  } else if (++idle_steps_ > 8 * processes_.size()) {
    idle_steps_ = 0;
    if (!sweep()) jump();
  }
  const std::uint64_t still_ns = clock_ns_.load(std::memory_order_relaxed) - progress_at_ns_;
  if (still_ns > kStuckNs && tally_.steps - progress_at_step_ > kStuckStepsMin) {
    std::string who;
    for (const auto& channel : channels_)
      if (!channel->over()) who += "; " + channel->describe();
    for (const auto& group : groups_)
      if (!group->over()) who += "; " + group->describe();
    trace_.violate("stuck: nothing has come further for 200 s" + who);
  }
}

// A snapshot costs as much as its host has links and more than the pass itself, so only some passes
// are followed by one. What is watched are counters, which stay fallen, and bounds of seconds.
void World::watch_counters(Process& process) {
  constexpr std::size_t kPassesToLook = 4;
  if (++process.passes % std::max(kPassesToLook, processes_.size()) != 0) return;
  const auto number = static_cast<std::size_t>(&process - processes_.data());
  const bool was = std::exchange(switched_, true);  // all its figures are of one moment
  const EngineSnapshot shot = process.engine->snapshot();
  switched_ = was;
  if (const std::string fallen = process.counters.see(shot); !fallen.empty())
    trace_.violate(fmt::format("host {}: {}", scenario_.name_of(number), fallen));
  if (const std::string missed = ports_.see(number, shot, now_ns()); !missed.empty())
    trace_.violate(fmt::format("host {}: {}", scenario_.name_of(number), missed));
  watch_chains(shot);
  watch_routes(number, shot);
  watch_silence(shot);
  if (!scenario_.options.pessimistic) return;
  watch_calm(number, shot);
  if (muted_) return;  // the acceptor waits a second for receives that the card holds
  if (const std::string late = fences_.see(number, shot, now_ns()); !late.empty())
    trace_.violate(late);
}

// A sign of life that came just before the end of a host counts for kSignToSignNs. If nothing is
// sent, TCP alone tells that the host is silent.
void World::watch_losses() {
  if (!scenario_.options.outages || lost_ns_ == 0) return;
  const std::uint64_t timeout_ns = static_cast<std::uint64_t>(scenario_.path_timeout_s) * kSecond;
  const std::uint64_t bound_ns = timeout_ns + kSignToSignNs + kLossSlackNs + paused_ns_;
  for (const auto& channel : channels_) {
    const bool silent = outage_ns_ != 0 && joins(*channel, outage_host_, outage_other_);
    if (now_ns() < (silent ? outage_ns_ : lost_ns_) + kControlSilenceMaxNs) continue;
    if (const std::string late = losses_.see(*channel, now_ns(), bound_ns); !late.empty())
      trace_.violate(late);
  }
}

bool World::port_up(const soft::NicRef& nic) {
  const auto& provider = processes_[static_cast<std::size_t>(nic.host)].provider;
  const std::string& name = scenario_.fabric.nic(nic).name;
  return provider == nullptr || !provider->under().faults().port_down(name, now_ns());
}

// The control path has let go of a progress lock: other threads may take it before the next one.
void World::between_guards() {
  const bool opening = contexts_.size() < scenario_.contexts.size();
  if (over_ || opening || switched_ || !switching_.one_in(scenario_.switches_one_in)) return;
  switched_ = true;
  if (tally_.path_faults != 0 && breaks_left_ != 0 && switching_.one_in(kBreakOneIn)) {
    --breaks_left_;
    break_queue_pair();
  }
  for (std::uint64_t turns = switching_.between(1, kTurnsMax); turns != 0; --turns) {
    Process& process = processes_[switching_.below(processes_.size())];
    const ContextState& context = contexts_[switching_.below(contexts_.size())];
    if (switching_.one_in(2)) {
      if (process.on && process.provider != nullptr) process.provider->under().turn();
    } else if (context.context != nullptr && runs(processes_[context.process])) {
      processes_[context.process].engine->poll_loop(*context.context);
    }
  }
  switched_ = false;
}

// Checks the count in a CLOSE. A channel that no user ever had has carried nothing. Those of groups
// are not known here.
void World::on_close(const CloseSaid& said) {
  for (const auto& channel : channels_) {
    if (Side* const side = channel->closing_side(said); side != nullptr)
      return channel->on_close_said(*side, said.close.messages);
  }
  if (said.close.messages != 0 && groups_.empty())
    trace_.violate(
        fmt::format("CLOSE of a channel that nobody has counts {} messages", said.close.messages));
}

// Lets the other processes go on while a call of some process waits in real time.
void World::while_waiting() {
  constexpr std::uint64_t kWaitStepNs = 30'000;  // 20,000 rounds of the engine are 600 ms
  clock_ns_.fetch_add(over_ ? 1'000'000 : random_.below(2 * kWaitStepNs),
                      std::memory_order_relaxed);
  if (over_) return;
  for (std::size_t i = 0; i < 4 * processes_.size(); ++i) {
    ++tally_.steps;
    turn(random_.below(processes_.size()));
  }
  apply_faults();
}

void World::abort_contexts() {
  for (std::size_t i = 0; i < contexts_.size(); ++i) {
    if (contexts_[i].context == nullptr || tally_.received < contexts_[i].abort_at) continue;
    if (runs(processes_[contexts_[i].process])) abort_context(i);
  }
}

void World::abort_context(std::size_t i) {
  leave();
  excuse_aborted(i);
  close_one(i);
}

void World::excuse_aborted(std::size_t i) {
  ++tally_.aborts;
  fences_.leave_out(contexts_[i].host);
  trace_.note("abort", {i});
  for (const auto& channel : channels_) {
    if (channel->plan().from == i)
      channel->lose_side(channel->sender()), channel->receiver().excuses |= kPeerAborted;
    if (channel->plan().to == i)
      channel->lose_side(channel->receiver()), channel->sender().excuses |= kPeerAborted;
  }
  for (const auto& group : groups_) group->abort(i);
}

void World::close_one(std::size_t number) {
  ContextState& state = contexts_[number];
  Context* const context = std::exchange(state.context, nullptr);
  wait_begins(number);
  processes_[state.process].engine->close_context(context);
  wait_ends(number);
  trace_.note("context closed", {number});
}

void World::taking_back_begins(std::size_t context, const ChannelRun& cause) {
  wait_begins(context);
  taking_back_ = &cause;
  cuts_seen_ = trace_.cuts();
}

void World::taking_back_ends(std::size_t context) {
  wait_ends(context);
  see_cut();
  taking_back_ = nullptr;
}

void World::see_cut() {
  if (taking_back_ != nullptr && trace_.cuts() != std::exchange(cuts_seen_, trace_.cuts()))
    on_cut(*taking_back_);
}

void World::on_cut(const ChannelRun& cause) {
  ++tally_.fences;
  if (scenario_.healthy())
    trace_.violate(cause.describe() + ": a link was cut although everybody answers");
  for (const auto& channel : channels_) {
    if (channel->plan().from == cause.plan().from && channel->plan().to == cause.plan().to)
      channel->excuse_both(kPathFailed);
  }
}

}  // namespace mesh::sim

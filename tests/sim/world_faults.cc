// Carries out the schedule of faults.

#include "engine/data/path_silence.h"
#include "engine/link/relayed_paths.h"
#include "tests/sim/world.h"

namespace mesh::sim {
namespace {
constexpr int kAllQueuePairs = -1;
}

void World::arm_lateness() {
  const auto arm = [this](soft::FaultKind kind, std::uint64_t delay_ns) {
    if (delay_ns == 0) return;
    for (std::size_t host = 0; host < scenario_.hosts.size(); ++host) {
      soft::Fault fault;
      fault.kind = kind;
      fault.delay_ns = delay_ns;
      fault.seed = scenario_.seed;
      fault.repeats = scenario_.repeats;
      if (!faults_of(host).arm(fault, now_ns()).ok()) trace_.violate("a delay cannot be armed");
    }
  };
  arm(soft::FaultKind::Reorder, scenario_.reorder_ns);
  arm(soft::FaultKind::WriteDelay, scenario_.write_delay_ns);
  arm(soft::FaultKind::OutOfOrder, scenario_.out_of_order_ns);
}

void World::apply_faults() {
  if (next_fault_ == scenario_.faults.size()) return;
  const FaultPlan& fault = scenario_.faults[next_fault_];
  const std::uint64_t now_ns = clock_ns_.load(std::memory_order_relaxed);
  if (tally_.received < fault.at || now_ns < fault_at_ns_ + fault.gap_ns) return;
  const bool loses =
      fault.kind == FaultPlan::Kind::HostLost || fault.kind == FaultPlan::Kind::HostUnplugged;
  const std::vector<std::size_t> struck = struck_by(fault);
  const auto waits = [this](std::size_t process) { return process == waiting_process_; };
  const auto runs_on = [this](std::size_t process) { return runs(processes_[process]); };
  // A dead process's call does not return.
  if (loses && std::any_of(struck.begin(), struck.end(), waits)) return;
  if (fault.kind == FaultPlan::Kind::HostExits &&
      (nested() || !std::all_of(struck.begin(), struck.end(), runs_on)))
    return;
  ++next_fault_;
  fault_at_ns_ = now_ns;
  const auto is_alive = [this](std::size_t process) { return processes_[process].alive; };
  if (std::none_of(struck.begin(), struck.end(), is_alive)) return;
  ++tally_.faults;
  for (const auto& group : groups_) group->excuse_connecting();
  if (left_) excuse_relayed(true);
  excuse_silence(fault);
  apply(fault);
}

void World::apply(const FaultPlan& fault) {
  using Kind = FaultPlan::Kind;
  const std::uint64_t now_ns = clock_ns_.load(std::memory_order_relaxed);
  trace_.note("fault",
              {static_cast<std::uint64_t>(fault.kind), fault.host, fault.other, fault.duration_ns});
  moved_ = true;
  calm_.disturb(now_ns + fault.lasts_ns());
  switch (fault.kind) {
    case Kind::QueuePairError:
      return fail_nics(fault,
                       {.kind = soft::FaultKind::QpError, .work_requests = fault.work_requests});
    case Kind::PortDown:
      return fail_nics(fault,
                       {.kind = soft::FaultKind::PortDown, .duration_ns = fault.duration_ns});
    case Kind::HostLost:
    case Kind::HostUnplugged: return lose_host(fault);
    case Kind::HostPauses:
      for (const std::size_t process : struck_by(fault))
        processes_[process].paused_until_ns = now_ns + fault.duration_ns;
      // A pause alone is no error of anybody's, but a lost path comes back only when both ends can
      // talk about it.
      if (!outlived(fault.duration_ns) && (tally_.path_faults != 0 || scenario_.options.relays))
        excuse_everybody(fault.host);
      return;
    case Kind::ControlReset: return lose_control(fault, control_.reset(fault.host, fault.other));
    case Kind::ControlHalfOpen:
      return lose_control(fault, control_.half_open(fault.host, fault.other));
    case Kind::HostExits:
      for (const std::size_t process : struck_by(fault)) exit_process(process, fault.finalizes);
      return;
    case Kind::ControlOutage: return silence_control(fault);
    case Kind::Mute: return mute_nic(fault);
    case Kind::CablesMove: return move_cables(fault);
    case Kind::CardReplaced: return replace_card(fault);
    case Kind::QueueDies: return kill_queue(fault);
  }
}

void World::fail_nics(const FaultPlan& fault, const soft::Fault& what) {
  ++tally_.path_faults;
  soft::Fault armed = what;
  armed.nic = fault.nic;
  for (const std::string& nic : scenario_.hosts[fault.host].nics) {
    if (what.kind == soft::FaultKind::PortDown && (fault.nic.empty() || fault.nic == nic))
      ports_.goes_down({fault.host, nic}, {now_ns(), what.duration_ns});
  }
  if (!faults_of(fault.host).arm(armed, now_ns()).ok()) trace_.violate("a fault cannot be armed");
  for (const auto& channel : channels_) {
    const ChannelPlan& plan = channel->plan();
    if (contexts_[plan.from].host == fault.host || contexts_[plan.to].host == fault.host)
      channel->strike();
  }
  // Another cable carries on, and control goes over to it. Only a handshake may have been under way
  // on this one.
  if (scenario_.options.pessimistic) {
    for (const auto& channel : channels_) excuse_handshake(*channel);
    return;
  }
  // Each of the next work requests may be the first one after a pause of the path that the work
  // request before has cost.
  constexpr std::uint64_t kPauseNs = 400'000'000;
  const std::uint64_t strikes = std::max<std::uint64_t>(what.work_requests, 1);
  const bool outlives = outlived(what.duration_ns + (strikes - 1) * kPauseNs);
  if (!kPathsRecover || !outlives || reset_in_silence_) excuse_everybody(fault.host);
}

// A path that has just come back, or stands in for another one, is lost at this moment.
void World::break_queue_pair() {
  const std::size_t host = scenario_.processes[switching_.below(processes_.size())];
  const std::vector<std::string>& nics = scenario_.hosts[host].nics;
  soft::Fault broken{.kind = soft::FaultKind::QpError, .work_requests = 1};
  broken.nic = nics[switching_.below(nics.size())];
  if (!faults_of(host).arm(broken, now_ns()).ok()) trace_.violate("a fault cannot be armed");
  calm_.disturb(now_ns());
  trace_.note("queue pair breaks", {host});
}

// Links go on over another cable, if there is one, however long the card hangs.
void World::mute_nic(const FaultPlan& fault) {
  muted_ = true;
  ++tally_.path_faults;
  const soft::Fault mute{
      .kind = soft::FaultKind::Mute, .nic = fault.nic, .duration_ns = fault.duration_ns};
  if (!faults_of(fault.host).arm(mute, now_ns()).ok()) trace_.violate("a fault cannot be armed");
  // A receiver that has all may close, and then its peer awaits its completions for a second only.
  for (const auto& channel : channels_) {
    const ChannelPlan& plan = channel->plan();
    if (contexts_[plan.from].host == fault.host || contexts_[plan.to].host == fault.host)
      channel->sender().excuses |= kPeerEnded;
  }
  // A card that hangs cannot push what it has written into a GPU's memory: flushes end in an error.
  const bool goes_on = !scenario_.options.relays && !scenario_.device_memory &&
                       scenario_.has_double(fault.host, fault.nic);
  if (!goes_on && (fault.duration_ns == 0 || !outlived(fault.duration_ns)))
    excuse_everybody(fault.host);
}

// Has the card of a port leave for a while, or takes the port down. Requests go on over another
// cable, or wait for this one.
void World::take_port(const soft::NicRef& nic, const soft::Fault& what) {
  const auto number = static_cast<std::size_t>(nic.host);
  if (!alive(number)) return;
  soft::Fault armed = what;
  armed.nic = scenario_.fabric.nic(nic).name;
  if (!faults_of(number).arm(armed, now_ns()).ok()) trace_.violate("a fault cannot be armed");
  if (what.kind == soft::FaultKind::CardReplaced) {
    calm_.left(number, armed.nic);
    ports_.leaves({number, armed.nic}, {now_ns(), what.duration_ns});
  } else {
    ports_.goes_down({number, armed.nic}, {now_ns(), what.duration_ns});
  }
  for (const auto& channel : channels_) {
    const ChannelPlan& plan = channel->plan();
    if (contexts_[plan.from].host != number && contexts_[plan.to].host != number) continue;
    channel->strike();
    excuse_handshake(*channel);
  }
}

void World::replace_card(const FaultPlan& fault) {
  constexpr std::uint64_t kDialedAnewNs = 3 * kSecond;  // a pause of a second and a dial in vain
  using FarEnd = FaultPlan::FarEnd;
  ++tally_.path_faults;
  const std::string& name = scenario_.fabric.hosts[fault.host].name;
  soft::NicRef near, far;
  if (!scenario_.fabric.find_nic(name, fault.nic, &near)) return trace_.violate("no such card");
  if (!scenario_.has_double(fault.host, fault.nic))
    fences_.excuse(now_ns() + fault.lasts_ns() + kDialedAnewNs);
  take_port(near, {.kind = soft::FaultKind::CardReplaced, .duration_ns = fault.duration_ns});
  if (fault.far_end == FarEnd::Stays || !scenario_.fabric.other_end(name, fault.nic, &far)) return;
  const bool replaced = fault.far_end == FarEnd::Replaced;
  take_port(far, {.kind = replaced ? soft::FaultKind::CardReplaced : soft::FaultKind::PortDown,
                  .duration_ns = fault.far_duration_ns});
}

// The paths that use the queue are lost, and come back on another one.
void World::kill_queue(const FaultPlan& fault) {
  constexpr std::uint64_t kFencedNs = 3 * kSecond;  // receives do not come back: see kStopToDrained
  bool killed = false;
  for (const std::size_t process : struck_by(fault))
    killed |= processes_[process].provider->kill_queue(fault.nic);
  if (!killed) return;
  ++tally_.path_faults;
  fences_.excuse(now_ns() + kFencedNs);
  calm_.left(fault.host, fault.nic);
  for (const auto& channel : channels_) {
    const ChannelPlan& plan = channel->plan();
    if (contexts_[plan.from].host != fault.host && contexts_[plan.to].host != fault.host) continue;
    channel->strike();
    excuse_handshake(*channel);
  }
}

void World::move_cables(const FaultPlan& fault) {
  ++tally_.path_faults;
  const std::string& name = fabric_.hosts[fault.host].name;
  soft::NicRef one, other;
  bool found =
      fabric_.find_nic(name, fault.nic, &one) && fabric_.find_nic(name, fault.other_nic, &other);
  for (const soft::NicRef& plug : {one, other}) {
    soft::NicRef far;
    found = found && fabric_.other_end(name, fabric_.nic(plug).name, &far);
    for (const soft::NicRef& port : {plug, far}) {
      const soft::Fault down{.kind = soft::FaultKind::PortDown,
                             .nic = fabric_.nic(port).name,
                             .duration_ns = fault.duration_ns};
      const auto host = static_cast<std::size_t>(port.host);
      ports_.goes_down({host, down.nic}, {now_ns(), fault.duration_ns});
      found = found && faults_of(host).arm(down, now_ns()).ok();
    }
  }
  if (!found) trace_.violate("cables cannot be moved");
  for (Process& process : processes_) process.provider->under().swap_plugs(one, other);
  fabric_.swap_plugs(one, other);
  for (const auto& channel : channels_) channel->strike();
  if (!outlived(fault.duration_ns) || reset_in_silence_) excuse_everybody(fault.host);
}

// A link that is up outlives its connection. A link that is not up ends with it, and so does every
// channel that it was to carry. An end of stream means a process that has ended, which is dialed
// for a second; no network that is silent brings one, but this one does. If a path is lost, too,
// nothing tells its peer from a dead one.
void World::lose_control(const FaultPlan& fault, std::uint32_t young) {
  constexpr std::uint64_t kBackNs = 200'000'000;  // the acceptor alone asks for it after 100 ms
  if (!kControlResumes) return excuse_hosts(fault.host, fault.other, kPathFailed);
  reset_in_silence_ |=
      control_.silent_until_ns(fault.host, fault.other) > clock_ns_.load(std::memory_order_relaxed);
  const bool outlives = outlived(kBackNs);
  if ((!outlives || reset_in_silence_) && tally_.path_faults != 0) excuse_everybody(fault.host);
  if (young == 0) return;
  for (const auto& channel : channels_) {
    if (joins(*channel, fault.host, fault.other) && !channel->connected())
      channel->excuse_both(kPathFailed);
  }
}

// A link that is up outlives the outage as long as a path carries. What needs frames meanwhile may
// fail: connects, and paths that were lost.
void World::silence_control(const FaultPlan& fault) {
  const std::uint64_t now_ns = clock_ns_.load(std::memory_order_relaxed);
  control_.silence(fault.host, fault.other, now_ns + fault.duration_ns);
  outage_host_ = fault.host;
  outage_other_ = fault.other;
  outage_ns_ = now_ns;
  if (!outlived(fault.duration_ns) && tally_.path_faults != 0) excuse_everybody(fault.host);
  for (const auto& channel : channels_) {
    // A side that closes early cannot tell its peer, and waits no longer than for a lost path.
    if (joins(*channel, fault.host, fault.other) &&
        (!channel->connected() || channel->plan().ending != Ending::Orderly))
      channel->excuse_both(kPathFailed);
  }
}

// Pauses between tries grow to twice an outage, and one outage may follow another.
bool World::outlived(std::uint64_t trouble_ns) {
  constexpr std::uint64_t kMargin = 8;
  trouble_ns_ += trouble_ns;
  return trouble_ns_ <
         static_cast<std::uint64_t>(scenario_.path_timeout_s) * 1'000'000'000 / kMargin;
}

// Not the handshake of a communicator that begins later.
void World::excuse_handshake(ChannelRun& channel) const {
  if (!channel.connected() && has_begun(channel)) channel.excuse_both(kPathFailed);
}

void World::excuse_everybody(std::size_t host) {
  for (std::size_t other = 0; other < scenario_.hosts.size(); ++other)
    excuse_hosts(host, other, kPathFailed);
}

// Returns the processes of the host that the fault names, or the only one that it strikes.
std::vector<std::size_t> World::struck_by(const FaultPlan& fault) const {
  if (fault.process != SIZE_MAX) return {fault.process};
  std::vector<std::size_t> all;
  for (std::size_t i = 0; i < processes_.size(); ++i)
    if (scenario_.processes[i] == fault.host) all.push_back(i);
  return all;
}

// All processes of a host have these faults.
soft::FaultPlan& World::faults_of(std::size_t host) {
  return processes_[host].provider->under().faults();
}

bool World::alive(std::size_t host) const {
  for (std::size_t i = 0; i < processes_.size(); ++i)
    if (scenario_.processes[i] == host && processes_[i].alive) return true;
  return false;
}

// A process ends. Its kernel destroys its queue pairs, and its host goes on with other processes or
// is gone.
void World::end_process(std::size_t number, ControlNetwork::End end) {
  Process& lost = processes_[number];
  lost.alive = false;
  control_.lose_process(number, end);
  for (ContextState& context : contexts_) {
    if (context.process == number) context.context = nullptr;
  }
  if (!alive(scenario_.processes[number])) return end_host(scenario_.processes[number]);
  lost.provider->under().fail_queue_pairs("", kAllQueuePairs);
}

void World::end_host(std::size_t number) {
  other_jobs_.leave(number);
  for (std::size_t i = 0; i < processes_.size(); ++i)
    if (scenario_.processes[i] == number) processes_[i].on = false;
  for (std::size_t other = 0; other < scenario_.hosts.size(); ++other) {
    if (other == number) continue;
    soft::Fault gone;
    gone.kind = soft::FaultKind::PeerLost;
    gone.peer_host = scenario_.fabric.hosts[number].name;
    if (!faults_of(other).arm(gone, now_ns()).ok()) trace_.violate("a fault cannot be armed");
  }
}

void World::lose_host(const FaultPlan& fault) {
  lost_ns_ = now_ns();
  for (const std::size_t process : struck_by(fault)) {
    if (!processes_[process].alive) continue;
    end_process(process, fault.kind == FaultPlan::Kind::HostLost ? ControlNetwork::End::Killed
                                                                 : ControlNetwork::End::Unplugged);
    excuse_process(process);
  }
}

// The peers of a process that has ended see it, and so do hosts whose messages it may have carried.
// Its siblings have no excuse.
void World::excuse_process(std::size_t number) {
  excuse_groups(kPathFailed);
  fences_.leave_out(scenario_.processes[number]);
  for (const auto& channel : channels_) {
    if (channel->plan().relayed || is_of(*channel, number)) channel->excuse_both(kPathFailed);
    if (contexts_[channel->plan().from].process == number) channel->lose_side(channel->sender());
    if (contexts_[channel->plan().to].process == number) channel->lose_side(channel->receiver());
  }
  for (const auto& group : groups_) {
    for (std::size_t i = 0; i < contexts_.size(); ++i)
      if (contexts_[i].process == number) group->lose(i);
  }
}

bool World::is_of(const ChannelRun& channel, std::size_t process) const {
  return contexts_[channel.plan().from].process == process ||
         contexts_[channel.plan().to].process == process;
}

// A group joins all hosts.
void World::excuse_groups(Excuses excuses) {
  for (const auto& group : groups_) {
    group->excuse_connecting();
    group->excuse(excuses);
  }
}

void World::excuse_hosts(std::size_t host, std::size_t other, Excuses excuses) {
  if (host != other) excuse_groups(excuses);
  for (const auto& channel : channels_) {
    if (joins(*channel, host, other)) channel->excuse_both(excuses);
  }
}

// Returns whether a channel joins two hosts; any host may be on the way of a relayed one.
bool World::joins(const ChannelRun& channel, std::size_t host, std::size_t other) const {
  if (channel.plan().relayed) return true;
  const std::size_t from = contexts_[channel.plan().from].host,
                    to = contexts_[channel.plan().to].host;
  return (from == host && to == other) || (from == other && to == host);
}

// ---- Hosts that are not neighbours: which errors have a reason when hosts between them leave.

bool World::relayed_all(bool (ChannelRun::*what)() const) const {
  return std::all_of(channels_.begin(), channels_.end(), [&](const auto& channel) {
    return !channel->plan().relayed || channel->over() || (*channel.*what)();
  });
}

// The channels of neighbours, by which hosts know of one another, stay for relayed channels.
bool World::keepers_stay() {
  const bool groups_over =
      std::all_of(groups_.begin(), groups_.end(), [](const auto& group) { return group->over(); });
  if (relayed_all(&ChannelRun::over) && groups_over) return false;
  if (!scenario_.leaves_early || !relayed_all(&ChannelRun::carried)) return true;
  leave();
  return false;
}

void World::excuse_relayed(bool carried_too) {
  for (const auto& group : groups_) {
    group->excuse_connecting();
    if (carried_too) group->excuse(kPathFailed);
  }
  for (const auto& channel : channels_) {
    if (channel->plan().relayed && (carried_too || !channel->carried()))
      channel->excuse_both(kPathFailed);
  }
}

// Notes that some host is unknown to others now: lost paths find no way, the others go on.
// `own_faults`: how many of the faults so far are the leaving itself.
void World::leave(std::uint64_t own_faults) {
  if (left_) return excuse_relayed(false);
  left_ = true;
  trace_.note("left", {});
  excuse_relayed(tally_.faults > own_faults);
}

// Excuses relayed channels if a host refuses to relay or has little room: no way may exist.
void World::excuse_refusals() {
  const bool refuses =
      std::any_of(scenario_.hosts.begin(), scenario_.hosts.end(),
                  [](const HostPlan& host) { return !host.relays || host.relay_mib < 512; });
  if (refuses) excuse_relayed(true);
}

void World::excuse_lack_of_ways() {
  for (const auto& channel : channels_)
    if (channel->plan().way != Way::Exists) channel->excuse_both(kPathFailed);
}

// Notes hosts that tell nothing: a host that stands still or is gone, and a host that believes in a
// connection which its peer has lost. Chains over a mute card carry nothing, whatever hosts tell.
void World::excuse_silence(const FaultPlan& fault) {
  using Kind = FaultPlan::Kind;
  constexpr std::uint64_t kLongNs = 1'000'000'000;  // a chain is given up after two seconds
  if (fault.kind == Kind::HostPauses) paused_ns_ += fault.duration_ns;
  // The neighbours of a host that stands still are not known either: a first message waits 2 s.
  if (paused_ns_ >= kLongNs) excuse_relayed(false);
  const bool mute =
      fault.kind == Kind::Mute && (fault.duration_ns == 0 || fault.duration_ns >= kLongNs);
  silent_ |= mute || paused_ns_ >= kLongNs || fault.kind == Kind::HostLost ||
             fault.kind == Kind::HostUnplugged || fault.kind == Kind::ControlHalfOpen;
}

// A chain that has work and tells nothing is given up, and its link goes on over another chain. If
// every host answers, the chain was a ring that waited for itself.
void World::watch_chains(const EngineSnapshot& shot) {
  if (!scenario_.options.relays || silent_) return;
  for (const PeerSnapshot& peer : shot.peers) {
    for (const PathSnapshot& path : peer.paths) {
      if (path.last_cause == engine::kStuckCause)
        trace_.violate(fmt::format("path {} is lost though everybody answers: {}", path.name,
                                   path.last_cause));
    }
  }
}

// A route leads over other hosts, each once.
void World::watch_routes(std::size_t process, const EngineSnapshot& shot) {
  for (const PeerSnapshot& peer : shot.peers) {
    for (const PathSnapshot& path : peer.paths) {
      for (const std::string& route : path.routes) {
        std::set<std::string> seen{fmt::format("h{}", scenario_.processes[process]), peer.peer};
        std::istringstream words(route);
        for (std::string name; words >> name;)
          if (name != "and" && !seen.insert(name).second)
            trace_.violate(fmt::format("a route from host {} to {} leads over {}",
                                       scenario_.name_of(process), peer.peer, route));
      }
    }
  }
}

namespace {
// Paths over other hosts name no addresses.
bool is_relayed(const PathSnapshot& path) {
  constexpr std::ptrdiff_t kSpaces = 2;
  return std::count(path.name.begin(), path.name.end(), ' ') == kSpaces;
}
}  // namespace

// Only a card that completes nothing is silent, or a host that is gone: the fabric's NICs notice
// its end only when they send. Neither a host that stands still is, nor a slow network, but paths
// over a host that stands still are.
void World::watch_silence(const EngineSnapshot& shot) {
  const bool all_alive = std::all_of(processes_.begin(), processes_.end(),
                                     [](const Process& process) { return process.alive; });
  if (muted_ || !all_alive) return;
  for (const PeerSnapshot& peer : shot.peers) {
    for (const PathSnapshot& path : peer.paths) {
      if (paused_ns_ != 0 && is_relayed(path)) continue;
      if (path.last_cause.find(engine::kSilentCause) != std::string::npos)
        trace_.violate(
            fmt::format("path {} is lost though every card works: {}", path.name, path.last_cause));
    }
  }
}

// Devices that take their time do one thing in so many passes. Queue pairs that were to break while
// the port was down break those of the next tries, which pause for up to 10 s.
void World::watch_calm(std::size_t process, const EngineSnapshot& shot) {
  constexpr std::uint64_t kBackNs = 25 * kSecond, kLeftNs = 5 * kSecond, kSlowNs = 100 * kMs;
  const std::uint64_t slow_ns = scenario_.device_works_one_in * kSlowNs;
  const std::uint64_t time_ns = now_ns();
  std::string late = calm_.see(process, shot, {.now_ns = time_ns, .bound_ns = kBackNs + slow_ns});
  if (late.empty())
    late = calm_.see_standby(process, shot, {.now_ns = time_ns, .bound_ns = kLeftNs + slow_ns});
  if (!late.empty()) trace_.violate(late);
}

// The process of a host ends, and NCCL has finalized its communicators or not. In both cases it
// first carries on for others until their chains are gone, but no longer than they would wait.
void World::exit_process(std::size_t number, bool finalizes) {
  Process& process = processes_[number];
  if (process.engine == nullptr) return;
  leave(1);
  for (std::size_t i = 0; i < contexts_.size(); ++i) {
    if (contexts_[i].process != number || contexts_[i].context == nullptr) continue;
    finalizes ? abort_context(i) : excuse_aborted(i);
  }
  const std::uint64_t begin_ns = now_ns();
  waiting_process_ = number;  // others go on meanwhile
  if (finalizes) {
    std::unique_ptr<Engine>(std::move(process.engine)).reset();
  } else {
    process.engine->exit_process();
  }
  waiting_process_ = SIZE_MAX;
  trace_.note("exited", {number, now_ns() - begin_ns});
  if (!finalizes) end_process(number, ControlNetwork::End::Killed);
  // If the wait was shorter, no chain was left. Else the engine has cut those that were.
  constexpr std::uint64_t kWaitNs = 500 * kMs;  // with a clock by hand it waits some 600 ms
  excuse_relayed(now_ns() >= begin_ns + kWaitNs || tally_.faults > 1);
  for (const auto& channel : channels_) {
    if (is_of(*channel, number) && !channel->connected()) channel->excuse_both(kPathFailed);
  }
}

}  // namespace mesh::sim

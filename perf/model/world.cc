#include "perf/model/world.h"

#include "engine/engine_impl.h"
#include "engine/link/test_hooks.h"
#include "src/base/clock.h"

#include <fmt/format.h>

#include <algorithm>

namespace mesh::model {
namespace {
constexpr int kHandshakeSteps = 2'000'000;
constexpr std::uint64_t kHandshakeStepNs = 100;
constexpr std::uint64_t kGroupStepNs = 10'000;     // while members connect
constexpr std::uint64_t kOpeningStepNs = 100'000;  // while nothing is sent
constexpr int kOpeningMessages = 2'000;
// Later than the end of any handshake, which takes at most 2 million steps of 100 ns.
constexpr std::uint64_t kStartNs = 1'000'000'000;
constexpr int kStuckSteps = 10'000'000;  // calls without progress while no NIC has anything to do
}  // namespace

std::unique_ptr<World> World::open(const WorldOptions& options, std::string& why) {
  std::unique_ptr<World> world(new World);
  world->calls_ = options.calls;
  world->relays_ = options.relays;
  world->both_ways_ = options.both_ways;
  if (!world->open_hosts(options, why)) return nullptr;
  const bool introduces = options.relays && !options.both_ways;  // a ring's flows do it themselves
  auto cables = options.cables;
  for (std::size_t i = 1; options.cables.empty() && i < world->hosts_.size(); ++i)
    cables.emplace_back(i - 1, i);
  for (const auto& [from, to] : cables) {
    if (introduces && !world->introduce(from, to, why)) return nullptr;
  }
  return world;
}

bool World::open_hosts(const WorldOptions& options, std::string& why) {
  for (const soft::HostSpec& spec : options.fabric.hosts) {
    Host host;
    for (const soft::NicSpec& nic : spec.nics) host.nics.push_back(nic.name);
    auto provider = soft::SoftProvider::open({.fabric = options.fabric,
                                              .host = spec.name,
                                              .agent = soft::Agent::None,
                                              .clock = Clock(&clock_)});
    if (!provider.ok()) return why = "host " + spec.name + " does not open", false;
    host.provider = std::move(*provider);
    EngineOptions wanted;
    wanted.settings.socket_ifname = "lo";
    // One connection stands for all connections of a job.
    wanted.settings.rails = options.relays ? "auto" : "all";
    wanted.settings.both_ways = options.both_ways ? 1 : 0;
    if (options.sites) wanted.settings.site = spec.name;
    wanted.policy = options.policy;
    wanted.policy.late_qps = false;  // no control frame goes while the model runs
    wanted.provider = host.provider.get();
    wanted.manual_clock_ns = &clock_;
    wanted.threading = Threading::Manual;
    auto hooks = std::make_shared<engine::TestHooks>();
    hooks->while_waiting = [this] { handshake_step(kHandshakeStepNs); };
    wanted.hooks = std::move(hooks);
    auto engine = Engine::open(wanted);
    if (!engine.ok()) return why = "no engine for host " + spec.name, false;
    host.engine = std::move(*engine);
    auto context = host.engine->open_context({});
    if (!context.ok()) return why = "no context for host " + spec.name, false;
    host.context = *context;
    hosts_.push_back(std::move(host));
  }
  return true;
}

World::~World() {
  group_.reset();
  for (Host& host : hosts_) host.engine->close_context(host.context), host.context = nullptr;
  for (Host& host : hosts_) host.engine.reset();
}

void World::handshake_step(std::uint64_t ns) {
  clock_.fetch_add(ns, std::memory_order_relaxed);
  for (Host& host : hosts_) {
    if (host.engine == nullptr) continue;
    host.engine->poll_control();
    if (host.context != nullptr) host.engine->poll_loop(*host.context);
    host.provider->turn();
    host.provider->take_cpu_ns();
  }
}

Flow* World::add_flow(const Load& load, std::size_t sender, std::size_t receiver,
                      std::string& why) {
  auto flow = std::make_unique<Flow>(load, sender, receiver);
  flow->relayed = both_ways_ || (relays_ && sender + 1 != receiver && receiver + 1 != sender);
  if (!connect(*flow, why) || !register_memory(flow->send, why) ||
      !register_memory(flow->receive, why) || (relays_ && !both_ways_ && !wake(*flow, why)))
    return nullptr;
  hosts_[sender].driven.push_back(&flow->send);
  hosts_[receiver].driven.push_back(&flow->receive);
  flows_.push_back(std::move(flow));
  return flows_.back().get();
}

GroupRun* World::add_group(const GroupLoad& load, std::string& why) {
  std::vector<GroupRun::Host> hosts;
  for (Host& host : hosts_) hosts.push_back({*host.engine, *host.context, *host.provider});
  group_ = GroupRun::open({.load = load,
                           .hosts = std::move(hosts),
                           .costs = calls_,
                           .step = [this] { handshake_step(kGroupStepNs); }},
                          why);
  if (group_ == nullptr) return nullptr;
  for (std::size_t rank = 0; rank < hosts_.size(); ++rank)
    hosts_[rank].driven.push_back(&group_->member(rank));
  return group_.get();
}

// Opens a link between neighbours, so that they know each other.
bool World::introduce(std::size_t from, std::size_t to, std::string& why) {
  flows_.push_back(std::make_unique<Flow>(Load{.messages = 0}, from, to));
  return connect(*flows_.back(), why);
}

// Sends the first message, which opens a path over other hosts.
bool World::wake(Flow& flow, std::string& why) {
  if (!exchange_one(flow)) return why = "the first message fails or does not end", false;
  flow.rewind();
  return true;
}

// Exchanges one message and leaves nothing over. Returns false if a request fails or does not end.
bool World::exchange_one(Flow& flow) {
  const std::uint64_t all = flow.send.done + 1;
  for (int step = 0; step < kHandshakeSteps; ++step) {
    for (Flow::End* const end : {&flow.send, &flow.receive}) {
      if (end->started < all && end->call_start(0) == Driven::Called::Failed) return false;
      if (end->call_test() == Driven::Called::Failed) return false;
    }
    if (flow.send.done == all && flow.receive.done == all) return true;
    handshake_step(kHandshakeStepNs);
  }
  return false;
}

bool World::open_both_ways(std::string& why) {
  const auto both = [](const std::unique_ptr<Flow>& flow) {
    return flow->send.channel->link.paths().usable_count() > 1 &&
           flow->receive.channel->link.paths().usable_count() > 1;
  };
  for (int message = 0; message < kOpeningMessages; ++message) {
    for (const auto& flow : flows_) {
      if (flow->send.done + 1 < flow->load.messages && !exchange_one(*flow))
        return why = "a message that opens the other way round fails", false;
    }
    handshake_step(kOpeningStepNs);
    if (!std::all_of(flows_.begin(), flows_.end(), both)) continue;
    for (const auto& flow : flows_) flow->rewind();
    return true;
  }
  for (const auto& flow : flows_) flow->rewind();  // a port is busy, or a slot has no room
  return true;
}

bool World::connect(Flow& flow, std::string& why) {
  Host& from = hosts_[flow.sender];
  Host& to = hosts_[flow.receiver];
  HandleBytes handle{};
  const Result<Listener*> listener = to.engine->listen(*to.context, 0, handle);
  if (!listener.ok()) return why = "no listener", false;
  for (int step = 0; step < kHandshakeSteps; ++step) {
    if (flow.send.channel == nullptr) {
      const Result<Channel*> sent = from.engine->connect(*from.context, 0, handle);
      if (!sent.ok() && sent.code() != Errc::WouldBlock)
        return why = "the hosts do not reach each other", false;
      flow.send.channel = sent.value();
    }
    if (flow.receive.channel == nullptr)
      flow.receive.channel = to.engine->accept(**listener).value();
    if (flow.send.channel != nullptr && flow.receive.channel != nullptr) break;
    handshake_step(kHandshakeStepNs);
  }
  to.engine->close_listener(*listener);
  if (flow.send.channel == nullptr || flow.receive.channel == nullptr)
    return why = "the handshake does not end", false;
  return true;
}

bool World::register_memory(Flow::End& end, std::string& why) {
  memory_.emplace_back(std::max<std::size_t>(end.flow->load.bytes, 1));
  end.data = memory_.back().data();
  if (end.data == nullptr)
    return why = fmt::format("no {} bytes of address space", end.flow->load.bytes), false;
  const Result<Registration*> region =
      mesh::register_memory(*end.channel, end.data, memory_.back().bytes(), MemoryType::Host);
  if (!region.ok()) return why = "the memory cannot be registered", false;
  end.region = *region;
  return true;
}

// Sets the clock to a round time with nothing left over, because the kernel's sockets may have
// taken any number of steps: what follows begins at the same moment every time.
void World::start_clock() {
  settle();
  const std::uint64_t start_ns = (now_ns() / kStartNs + 1) * kStartNs;
  clock_.store(start_ns, std::memory_order_relaxed);
  settle();
  for (Host& host : hosts_) {
    host.provider->take_cpu_ns();
    host.at = 0;
    host.tests = false;
    host.chains = host.engine->snapshot().relay.chains;
    host.proxy.begin(start_ns);
    host.relay.begin(start_ns);
  }
}

void World::settle() {
  bool any = false;
  for (bool moved = true; moved; any |= moved) {
    moved = false;
    for (const Host& host : hosts_) moved |= host.provider->turn();
  }
  if (!any) return;
  // There may be news for everybody: a thread looks at everything once before its rounds count as
  // idle again.
  each_cpu([](Cpu& cpu) {
    cpu.idle_round_ns = 0;
    cpu.round_idle = false;
  });
}

std::uint64_t World::next_due_ns() const {
  std::uint64_t due_ns = UINT64_MAX;
  for (const Host& host : hosts_) due_ns = std::min(due_ns, host.provider->next_due_ns());
  return due_ns;
}

bool World::Host::over() const noexcept {
  return std::all_of(driven.begin(), driven.end(), [](const Driven* each) { return each->over(); });
}

void World::Cpu::end_round() noexcept {
  idle_round_ns = round_idle ? round_ns : 0;
  round_ns = 0;
  round_idle = true;
}

void World::Cpu::skip_until(std::uint64_t due_ns) noexcept {
  if (free_at_ns < due_ns) free_at_ns += (due_ns - free_at_ns) / idle_round_ns * idle_round_ns;
}

// Visits the proxies that have something to do, and the relays.
template <typename Visitor>
void World::each_cpu(Visitor&& visit) {
  for (Host& host : hosts_) {
    if (!host.over()) visit(host.proxy);
    if (host.chains != 0) visit(host.relay);
  }
}

// Returns no host if everything is over.
World::Actor World::next_actor() {
  Actor next;
  bool over = true;
  for (Host& host : hosts_) {
    over = over && host.over();
    for (Cpu* const cpu : {&host.proxy, &host.relay}) {
      const bool acts = cpu == &host.proxy ? !host.over() : host.chains != 0;
      if (acts && (next.cpu == nullptr || cpu->free_at_ns < next.cpu->free_at_ns))
        next = {.host = &host, .cpu = cpu};
    }
  }
  return over ? Actor{} : next;
}

// Skips whole rounds that achieve nothing, because nothing can change before the next NIC event.
// Every thread is then where it would have been.
void World::skip_idle(std::uint64_t due_ns) {
  if (due_ns == UINT64_MAX) return;
  bool idle = true;
  each_cpu([&idle](const Cpu& cpu) { idle = idle && cpu.idle_round_ns != 0; });
  if (idle) each_cpu([due_ns](Cpu& cpu) { cpu.skip_until(due_ns); });
}

bool World::run(const std::function<bool()>& done, std::string& why) {
  start_clock();
  int stuck = 0;
  while (!done()) {
    settle();
    const std::uint64_t due_ns = next_due_ns();
    skip_idle(due_ns);
    const Actor actor = next_actor();
    if (actor.host == nullptr) return true;
    if (due_ns <= actor.cpu->free_at_ns && due_ns > now_ns()) {
      clock_.store(due_ns, std::memory_order_relaxed);
      continue;
    }
    clock_.store(std::max(now_ns(), actor.cpu->free_at_ns), std::memory_order_relaxed);
    if (actor.cpu == &actor.host->relay)
      turn_relay(*actor.host);
    else if (!act(*actor.host))
      return why = fmt::format("a request failed at {} ns", now_ns()), false;
    stuck = due_ns == UINT64_MAX && actor.cpu->round_idle ? stuck + 1 : 0;
    if (stuck > kStuckSteps)
      return why = fmt::format("nothing moves any more at {} ns", now_ns()), false;
  }
  return true;
}

// Makes one call of the host's proxy. Returns false if it failed.
bool World::act(Host& host) {
  const std::uint64_t from_ns = now_ns();
  Driven& driven = *host.driven[host.at];
  const bool testing = host.tests;
  const std::uint64_t own_ns = driven.own_ns(calls_, testing);
  host.provider->spend_cpu_ns(own_ns);
  const Driven::Called called = testing ? driven.call_test() : driven.call_start(from_ns);
  std::uint64_t spent_ns = host.provider->take_cpu_ns();
  if (called == Driven::Called::Nothing) spent_ns = 0;
  Cpu& cpu = host.proxy;
  cpu.free_at_ns = from_ns + spent_ns;
  if (testing && called == Driven::Called::Progress) driven.note_progress(cpu.free_at_ns);

  cpu.round_ns += spent_ns;
  const bool idle = called != Driven::Called::Progress && spent_ns <= own_ns;
  if (!idle) cpu.idle_round_ns = 0;
  cpu.round_idle = cpu.round_idle && idle;
  host.tests = !testing;
  if (testing && ++host.at == host.driven.size()) {
    host.at = 0;
    cpu.end_round();
  }
  return called != Driven::Called::Failed;
}

// Turns a middle host's thread once, over all its chains.
void World::turn_relay(Host& host) {
  const std::uint64_t from_ns = now_ns();
  const std::uint64_t own_ns = host.chains * calls_.chain_ns;
  host.provider->spend_cpu_ns(own_ns);
  const std::uint32_t moved = static_cast<engine::EngineImpl&>(*host.engine).turn_relay();
  const std::uint64_t spent_ns = host.provider->take_cpu_ns() + moved * calls_.moved_ns;
  Cpu& cpu = host.relay;
  cpu.free_at_ns = from_ns + spent_ns;
  cpu.round_ns = spent_ns;
  cpu.round_idle = cpu.round_idle && moved == 0;
  cpu.end_round();
}

std::uint64_t World::rnr_events() const {
  std::uint64_t events = 0;
  for (const Host& host : hosts_)
    for (const std::string& nic : host.nics) events += host.provider->counters(nic).rnr_events;
  return events;
}

}  // namespace mesh::model

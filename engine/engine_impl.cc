#include "engine/engine_impl.h"

#include "engine/data/patient_call.h"
#include "engine/link/link_setup.h"
#include "engine/link/path_choice.h"
#include "src/base/held_locks.h"
#include "src/base/log.h"
#include "src/base/own_thread.h"
#include "src/base/random.h"
#include "src/base/setting_grammar.h"
#include "src/base/timeouts.h"
#include "src/topo/host_topology.h"
#include "src/verbs/discovery.h"
#include "src/verbs/rail_traits.h"

#include <algorithm>
#include <bit>
#include <exception>
#include <new>
#include <optional>
#include <utility>

#include <time.h>

namespace mesh {

Result<std::unique_ptr<Engine>> Engine::open(const EngineOptions& options) {
  auto engine = std::make_unique<engine::EngineImpl>(options);
  if (const Status status = engine->start(); !status.ok()) return status;
  return std::unique_ptr<Engine>(std::move(engine));
}

namespace engine {

namespace {
// A manual clock may stand still, so a wait is bounded by turns as well.
constexpr int kManualRounds = 50'000;
constexpr int kCoresToSpare = 8;  // with fewer cores a spinning poller would take one from the job

// A poller pays only if a core is left for it beside NCCL's own threads. A user who names CPUs for
// pollers says that there is one.
int poller_threads(const Settings& settings, const topo::HostTopology& host) {
  if (settings.threads != kAuto) return settings.threads;
  if (!settings.cpus.empty()) return 1;
  return host.usable_cores() >= kCoresToSpare ? 1 : 0;
}
}  // namespace

EngineImpl::EngineImpl(const EngineOptions& options)
    : options_(options),
      hooks_(hooks_of(options_)),
      settings_(options_.settings),
      clock_(options.manual_clock_ns),
      watch_(options_),
      services_({.mutex = mutex_,
                 .options = options_,
                 .rails = rails_,
                 .clock = clock_,
                 .plane = plane_,
                 .unauthenticated_lines = unauthenticated_lines_,
                 .figures = figures_,
                 .channels = *this,
                 .waker = *this,
                 .thread_pool = pool_,
                 .relays = &relay_client_,
                 .cables = &cables_,
                 .neighbours = &neighbours_}),
      silence_watch_(services_),
      latency_watch_(clock_, hooks_.timed_ns == 0 ? kLookToNextNs : hooks_.timed_ns),
      times_paths_(settings_.latency != 0 && (!settings_.stats.empty() || hooks_.timed_ns != 0)),
      cables_(services_),
      neighbours_(services_),
      links_(services_, contexts_),
      relay_client_(services_, [this] { return links_.hosts(); }),
      relay_service_(services_, [this] { return relay_client_.peers(); }),
      reception_(services_, links_),
      port_events_(services_, links_),
      card_returns_({.host = services_,
                     .links = links_,
                     .events = port_events_,
                     .rails = rails_,
                     .contexts = contexts_}) {}

Status EngineImpl::open_plane() {
  const ControlPlaneOptions control{.socket_ifname = settings_.socket_ifname,
                                    .socket_family = settings_.socket_family,
                                    .clock = clock_};
  Result<std::unique_ptr<ControlPlane>> plane = hooks_.control_network == nullptr
                                                    ? ControlPlane::open(control, *this)
                                                    : hooks_.control_network->open(control, *this);
  if (!plane.ok()) return plane.status();
  plane_ = std::move(*plane);
  return {};
}

Status EngineImpl::start() {
  if (const Status opened = open_plane(); !opened.ok()) return opened;  // logs the version
  Result<std::vector<verbs::Rail>> found =
      verbs::discover(*options_.provider, settings_, &refused_ports_,
                      options_.threading == Threading::Own ? &pool_ : nullptr);
  if (options_.refused_ports != nullptr) *options_.refused_ports = refused_ports_;
  if (!found.ok()) return found.status();
  rails_ = std::move(*found);
  if (const Status marked = verbs::mark_site_rails(rails_, settings_); !marked.ok()) return marked;
  if (options_.choose_policy)
    options_.policy = options_.choose_policy(verbs::traits_of(options_.provider->fabric(), rails_));
  for (const verbs::Rail& rail : rails_) {
    if (rail.up) rail_infos_.push_back(rail.info);
    fit_to_device(rail);
  }
  notes_ = shared_subnet_lines(describe_rails(*options_.provider, rails_));
  if (settings_.both_ways != 0) {
    if (const std::string narrow = narrow_slot_text(*options_.provider, rails_); !narrow.empty())
      notes_.push_back("NCCL_MESH_BOTH_WAYS=1 has no effect on this host: " + narrow);
  }
  for (const std::string& line : notes_) LOG_INFO("{}", line);
  if (options_.threading == Threading::Own) verbs::keep_views(rails_);
  port_events_.watch(*plane_);
  if (settings_.relay != 0) relay_client_.set_ticket(random_id());
  {
    const Lock lock(mutex_);
    neighbours_.begin();
  }
  if (options_.threading == Threading::Manual) return {};
  if (const Status configured = configure_pollers(); !configured.ok()) return configured;
  const Status started = start_own_thread(thread_, "mesh-control", [this] { control_thread(); });
  if (!started.ok())
    LOG_WARN("control: without its thread nothing connects; the start is given up");
  return started;
}

Status EngineImpl::configure_pollers() {
  topo::HostTopology host = topo::read_host_topology();
  const int threads = poller_threads(settings_, host);
  if (!settings_.cpus.empty()) {
    const std::optional<std::vector<int>> wanted = read_cpu_list(settings_.cpus);
    const std::vector<int> allowed = host.allowed_on(-1);
    if (!wanted || !topo::restrict_cpus(host, *wanted).ok()) {
      LOG_WARN("NCCL_MESH_CPUS: this process may not run on any of '{}'; wanted: some of {}",
               settings_.cpus, fmt::join(allowed, ", "));
      return Errc::InvalidArgument;
    }
  }
  pollers_.configure(threads, host);
  return {};
}

// Lowers the policy to the limits of the device. A depth becomes the next lower power of two, and
// the longest work request stays a multiple of kStripeAlign.
void EngineImpl::fit_to_device(const verbs::Rail& rail) {
  TransferPolicy& policy = options_.policy;
  const std::uint64_t longest = rail.message_bytes_max - rail.message_bytes_max % kStripeAlign;
  if (longest > 0 && policy.wr_bytes > longest) {
    LOG_INFO("{}: its port limits work requests to {} bytes, so NCCL_MESH_WR_BYTES {} is lowered",
             rail.info.name, longest, policy.wr_bytes);
    policy.wr_bytes = longest;
    policy.express_bytes = std::min(policy.express_bytes, longest);
  }
  const auto limit = static_cast<std::uint32_t>(std::max(rail.qp_wr_max, 0));
  if (limit == 0) return;  // the device does not tell
  policy.sq_depth = std::min(policy.sq_depth, std::bit_floor(limit));
  policy.rq_depth = std::min(policy.rq_depth, std::bit_floor(limit));
}

// The destructor waits for bring-ups that a device has not answered, and for queue pairs that it
// destroys.
void EngineImpl::end() noexcept {
  Lock lock(mutex_);
  if (std::exchange(ended_, true)) return;
  for (const auto& context : contexts_) {
    begin_close(*context);
    context->lingering = true;
    context->linger_until_ns = clock_.now_ns() + kCloseToCutNs;
  }
  wait_for(lock, kCloseToCutNs, [this] {
    reap_contexts();
    return std::all_of(contexts_.begin(), contexts_.end(),
                       [](const auto& context) { return context->links.empty(); });
  });
  reap_contexts();
  end_relays(lock);
}

EngineImpl::~EngineImpl() {
  end();
  {
    const Lock lock(mutex_);
    while (!contexts_.empty()) destroy_context(*contexts_.back());
  }
  if (thread_.joinable()) {
    {
      const Lock lock(mutex_);
      stopping_ = true;
    }
    plane_->wake();
    thread_.join();
  }
  pollers_.stop();
}

// Ends the relays. Other hosts may still have messages to send when we have none: a path of theirs
// over this host lasts until they close it, but not longer than they would wait for it.
void EngineImpl::end_relays(Lock& lock) {
  relay_client_.tend();  // no link is left
  relay_service_.close();
  if (!relay_service_.carries()) return figures_.sum_up(relay_service_);
  const std::uint64_t bound_ns =
      static_cast<std::uint64_t>(settings_.path_timeout_s) * kNsPerSecond;
  LOG_INFO("this process relays {} paths of other hosts; its end waits for them for up to {} s",
           relay_service_.figures().paths, settings_.path_timeout_s);
  if (!wait_for(lock, bound_ns, [this] { return !relay_service_.carries(); }))
    LOG_INFO("{} relayed paths of other hosts are still open and are cut",
             relay_service_.figures().paths);
  relay_service_.cut_all();
  figures_.sum_up(relay_service_);
}

// Returns the milliseconds until a link, as when it ends a wait, or a path's latency is due.
int EngineImpl::idle_wait_ms() const {
  const std::uint64_t now_ns = clock_.now_ns();
  const std::uint64_t due_ns = std::min(services_.due_ns(), latency_watch_.due_ns());
  const std::uint64_t left_ns = due_ns > now_ns ? due_ns - now_ns : 0;
  return static_cast<int>(std::min<std::uint64_t>(left_ns / kNsPerMs + 1, kControlIdleWaitMs));
}

void EngineImpl::control_thread() {
  int wait_ms = kControlIdleWaitMs;
  for (;;) {
    plane_->wait(wait_ms);
    port_events_.collect();
    const Lock lock(mutex_);
    if (stopping_) return;
    try {
      poll_control_locked();
    } catch (const std::exception& error) {
      if (unauthenticated_lines_.take(clock_.now_ns()))
        LOG_WARN("control: {}{}", error.what(), unauthenticated_lines_.rest());
      services_.tend_soon();
      const timespec pause{.tv_sec = 0, .tv_nsec = kControlBusyWaitMs * 1'000'000};
      ::nanosleep(&pause, nullptr);  // what is due stays due: no pause, and this spins
    }
    wait_ms = services_.due_soon() ? kControlBusyWaitMs : idle_wait_ms();
  }
}

EngineStats EngineImpl::stats() const {
  const Lock lock(mutex_);
  return figures_.stats(contexts_);
}

EngineSnapshot EngineImpl::snapshot() const {
  EngineSnapshot shot;
  shot.host = options_.provider->host_name();
  shot.stats = stats();
  shot.rails = rail_states(options_, rails_);
  shot.refused_ports = refused_ports_;
  shot.notes = notes_;
  const Lock lock(mutex_);
  port_events_.add_to(shot);
  figures_.add_to(shot, contexts_, clock_.now_ns());
  shot.relay = relay_service_.figures();
  shot.neighbours = neighbours_.counts();
  return shot;
}

bool EngineImpl::poll_control() {
  port_events_.collect();
  const Lock lock(mutex_);
  return poll_control_locked();
}

bool EngineImpl::poll_control_locked() {
  bool moved = true;
  try {
    if (port_events_.take_collected()) relay_service_.look_at_ports();
    moved = plane_->poll_once();
  } catch (const std::exception& error) {
    // The next pass handles the event that failed in this one. The links are tended in any case.
    if (unauthenticated_lines_.take(clock_.now_ns()))
      LOG_WARN("control: {}{}", error.what(), unauthenticated_lines_.rest());
  }
  port_events_.take_answers();
  tend_links();
  neighbours_.tend();
  card_returns_.tend();
  relay_client_.tend();
  relay_service_.tend();
  port_events_.look();
  if (options_.threading == Threading::Manual) {
    moved |= relay_service_.turn() != 0;
    moved |= turn_devices();
  }
  reap_contexts();
  for (const auto& context : contexts_) {
    // If only queue pairs are still being destroyed, the end of that wakes the control thread.
    const bool only_destroys = context->lingering && context->links.empty();
    if (context->closing && !only_destroys) services_.tend_soon();
  }
  watch_.look(contexts_, clock_.now_ns());
  silence_watch_.look(contexts_, clock_.now_ns());
  for (const auto& context : contexts_)
    for (const auto& device : context->loop.devices) device->calls.tell_late();
  if (times_paths_) latency_watch_.look(contexts_);
  changed_.notify_all();
  return moved;
}

// Returns true if a device has something to do, and does not hang.
bool EngineImpl::turn_devices() {
  bool any = false;
  for (const auto& context : contexts_) {
    for (const auto& device : context->loop.devices) {
      if (!device->has_work() || (hooks_.device_hangs && hooks_.device_hangs(*device))) continue;
      any = true;
      if (hooks_.device_works()) device->turn_work();
    }
  }
  return any;
}

void EngineImpl::tend_links() {
  const Links::Sweep sweep = links_.next_sweep(services_.due_ns());
  if (sweep == Links::Sweep::All) services_.begin_pass();  // all of them say what is due next
  services_.end_pass(links_.tend(sweep));
}

bool EngineImpl::wait_for(Lock& lock, std::uint64_t bound_ns, const std::function<bool()>& done) {
  const std::uint64_t deadline = clock_.now_ns() + bound_ns;
  for (int round = 0; !done(); ++round) {
    if (clock_.now_ns() >= deadline) return false;
    if (options_.threading == Threading::Own) {
      changed_.wait_for(lock, std::chrono::milliseconds(kControlBusyWaitMs));
      continue;
    }
    if (round >= kManualRounds) return false;
    poll_control_locked();
    lock.unlock();
    if (hooks_.while_waiting) hooks_.while_waiting();
    port_events_.collect();
    lock.lock();
  }
  return true;
}

namespace {
// The domains of devices, which all work at a time. Those that are late are left out, if any is
// not.
Status open_all(std::span<DeviceContext* const> devices) {
  struct Asked {
    std::shared_ptr<DeviceContext::Domain> made;
    std::shared_ptr<PatientCall> call;
  };
  std::vector<Asked> asked;
  for (DeviceContext* const device : devices) {
    auto made = std::make_shared<DeviceContext::Domain>();
    auto work = [device, made] { *made = device->make_domain(); };
    asked.push_back({made, PatientCall::begin({*device, "ibv_alloc_pd"}, std::move(work),
                                              [made] { made->card.reset(); })});
  }
  bool any = false;
  for (const Asked& each : asked) any |= each.call->wait();
  if (!any && !asked.empty()) asked.front().call->wait_for_end();
  for (std::size_t i = 0; i < devices.size(); ++i) {
    if (asked[i].call->abandon()) {
      devices[i]->open_late();
    } else if (const Status status = devices[i]->open(std::move(*asked[i].made)); !status.ok()) {
      return status;
    }
  }
  return {};
}

// Gives a context up on a thread, or here if there is no thread or no memory.
void let_go(ThreadPool& pool, std::unique_ptr<Context> context) noexcept try {
  pool.let_go(std::shared_ptr<void>(std::move(context)));
} catch (const std::bad_alloc&) {
}
}  // namespace

// A device may take long for a protection domain, so nobody waits for us meanwhile. Returns with
// the lock if all are open.
Status EngineImpl::open_devices(std::span<const std::unique_ptr<DeviceContext>> devices,
                                Lock& lock) {
  std::vector<DeviceContext*> unopened;
  for (const auto& device : devices) unopened.push_back(device.get());
  for (;;) {
    if (const Status status = open_all(unopened); !status.ok()) return status;
    lock.lock();
    std::erase_if(unopened, [](const DeviceContext* device) {
      return device->is_late() || device->is_of(device->rail().context.hold());
    });
    if (unopened.empty()) return {};
    lock.unlock();  // a card was replaced meanwhile
  }
}

Result<Context*> EngineImpl::open_context(const ContextOptions& options) {
  auto context = std::make_unique<Context>(options, static_cast<LinkHost&>(services_));
  context->id = random_id();
  for (std::size_t i = 0; i < rails_.size(); ++i) {
    auto device = std::make_unique<DeviceContext>(*options_.provider, rails_[i],
                                                  static_cast<std::uint32_t>(i));
    if (options_.threading != Threading::Manual || hooks_.device_works)
      device->wait_in_background(context->loop);
    if (options_.threading == Threading::Manual) device->work_by_hand();
    context->loop.devices.push_back(std::move(device));
  }
  Lock lock(mutex_, std::defer_lock);
  if (const Status opened = open_devices(context->loop.devices, lock); !opened.ok()) {
    let_go(pool_, std::move(context));  // a device that hangs holds it up
    return opened;
  }
  std::vector<DeviceContext*> devices;
  for (const auto& device : context->loop.devices) {
    devices.push_back(device.get());
    // A card that has left and has no successor yet brings its domain when it comes.
    if (port_events_.is_away(device->index())) device->leave();
  }
  context->registrations = std::make_unique<RegistrationTable>(std::move(devices), settings_,
                                                               options_.policy.inline_bytes);
  context->loop.registrations = context->registrations.get();
  context->loop.flusher = std::make_unique<Flusher>(rails_.size(), settings_);
  context->registrations->flush_with(*context->loop.flusher);
  if (options.communicator_id) neighbours_.know(*options.communicator_id);
  contexts_.push_back(std::move(context));
  return contexts_.back().get();
}

// Tells everything of the context to end, and waits for nothing.
void EngineImpl::begin_close(Context& context) {
  if (context.closing) return;
  figures_.sum_up(context, clock_.now_ns());
  context.closing = true;
  context.listeners.clear();
  for (auto& stage : stages_) {
    if (!stage || stage->context != &context) continue;
    // The link of a failed connect may be gone.
    if (stage->link != nullptr) stage->link->openings().fail(*stage, Errc::PeerClosed);
    stage.reset();
  }
  context.begin_close();
}

// NCCL may free its memory when this returns, and calls it under a mutex of the process. So the
// registrations end now, and the links say goodbye to their peers afterwards, lingering in the
// control thread for kCloseToCutNs. A link that may still touch registered memory ends at
// once.
void EngineImpl::close_context(Context* context) noexcept {
  if (context == nullptr) return;
  Lock lock(mutex_);
  const auto tend = [this]() noexcept {
    try {
      tend_links();
    } catch (const std::exception&) {  // no memory: the next pass tends them
      services_.tend_soon();
    }
  };
  begin_close(*context);
  tend();
  if (context->registrations->size() != 0) context->take_down();
  pollers_.remove(context->loop);
  lock.unlock();  // deregistering may take seconds; the context does not linger yet, so it stays
  context->registrations->clear();
  lock.lock();
  context->lingering = true;
  context->linger_until_ns = clock_.now_ns() + kCloseToCutNs;
  tend();
  reap_contexts();
}

void EngineImpl::set_traffic_class(Context& context, int traffic_class) {
  const Lock lock(mutex_);
  context.options.traffic_class = traffic_class;
}

bool EngineImpl::waits_for_peers() const {
  const Lock lock(mutex_);
  return !contexts_.empty() || relay_service_.carries() || relay_service_.destroys();
}

bool EngineImpl::carries_for_others() const {
  const Lock lock(mutex_);
  return relay_service_.carries();
}

// The peers of our own links must not wait for others. The links are taken down and not closed,
// because NCCL's threads may still use the channels.
void EngineImpl::exit_process() noexcept {
  Lock lock(mutex_);
  if (!relay_service_.carries()) return;
  for (const auto& context : contexts_) context->take_down();
  end_relays(lock);
}

void EngineImpl::reap_contexts() {
  for (std::size_t i = contexts_.size(); i-- > 0;) {
    Context& context = *contexts_[i];
    if (!context.may_go(clock_.now_ns())) continue;
    context.cut_links();
    if (!context.destroys()) destroy_context(context);
  }
}

void EngineImpl::destroy_context(Context& context) {
  if (context.options.communicator_id) neighbours_.forget(*context.options.communicator_id);
  pollers_.remove(context.loop);
  card_returns_.forget(context);
  context.cut_links();
  context.wait_until_destroyed();
  figures_.keep(context.loop.counters);
  const auto at = std::find_if(contexts_.begin(), contexts_.end(),
                               [&context](const auto& each) { return each.get() == &context; });
  std::unique_ptr<Context> gone = std::move(*at);
  contexts_.erase(at);
  // Its devices may take long for its queues and domains. Without a thread this one waits.
  const WaitsUnderLocks no_thread;
  if (options_.threading == Threading::Manual) return gone.reset();
  let_go(pool_, std::move(gone));
}

// ---- The end of channels.

void EngineImpl::close_channel(Channel& channel) noexcept {
  const Lock lock(mutex_);
  Link& link = links_.of_channel(channel);
  link.touch();
  link.close_channel(channel);
  link.farewell().say_bye_if_empty();
  plane_->wake();
}

// ---- Events of the control plane go to the relay client or service that owns the connection, or
// else to the links.

void EngineImpl::on_dialed(ConnectionId id) {
  if (relay_client_.owns(id)) return relay_client_.on_dialed(id);
  reception_.on_dialed(id);
}

bool EngineImpl::on_frame(ConnectionId id, const FrameHeader& header,
                          std::span<const std::byte> body) {
  if (relay_client_.owns(id)) return relay_client_.on_frame(id, header, body);
  const bool strange = links_.of_connection(id) == nullptr && links_.of_redial(id) == nullptr;
  if (relay_service_.owns(id) || (strange && is_of_relays(header.type)))
    return relay_service_.on_frame(id, header, body);
  return reception_.on_frame(id, header, body);
}

void EngineImpl::on_lost(ConnectionId id, Errc reason, const std::string& text) {
  if (relay_client_.owns(id)) return relay_client_.on_lost(id, text);
  if (relay_service_.owns(id)) return relay_service_.on_lost(id);
  reception_.on_lost(id, reason, text);
}

// Events of devices have been collected without the mutex.
void EngineImpl::on_readable(int fd) {
  if (cables_.owns(fd)) return cables_.on_readable(fd);
  if (neighbours_.owns(fd)) neighbours_.on_readable(fd);
}

}  // namespace engine
}  // namespace mesh

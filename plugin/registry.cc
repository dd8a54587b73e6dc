#include "plugin/registry.h"

#include "plugin/logger.h"
#include "plugin/metrics_text.h"
#include "plugin/oneshot/totals.h"
#include "plugin/provider.h"
#include "src/base/check.h"
#include "src/base/config.h"
#include "src/base/fork_guard.h"
#include "src/base/log.h"
#include "src/base/log_time.h"
#include "src/base/setting_grammar.h"
#include "src/base/version.h"
#include "tuning/derive.h"
#include "tuning/knob.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <list>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include <strings.h>
#include <unistd.h>

namespace mesh::plugin {

namespace {

std::uint64_t unix_seconds() {
  using std::chrono::system_clock;
  return static_cast<std::uint64_t>(system_clock::to_time_t(system_clock::now()));
}

// NCCL accepts "none" in upper and lower case.
bool names_profiler(const std::string& plugin) {
  return !plugin.empty() && ::strcasecmp(plugin.c_str(), "none") != 0;
}

// Runs at exit, or at an unload that did not honour -z nodelete.
__attribute__((destructor)) void on_unload() { Registry::instance().process_exits(); }

}  // namespace

Registry& Registry::instance() {
  alignas(Registry) static std::byte place[sizeof(Registry)];
  static Registry* const registry = new (place) Registry;
  return *registry;
}

// Keeps the engine that was held, for one block.
class Registry::Use {
 public:
  explicit Use(Registry& registry) noexcept : registry_(registry) {}
  ~Use() { registry_.release(); }
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;

 private:
  Registry& registry_;
};

Status Registry::hold_for_process(ncclDebugLogger_t logger) {
  if (const Status started = start_and_hold(logger); !started.ok()) return started;
  const Use use(*this);
  const Lock lock(mutex_);
  held_for_process_ = true;
  return {};
}

Result<Communicator*> Registry::open_communicator(const ContextOptions& options,
                                                  ncclDebugLogger_t logger) {
  if (const Status started = start_and_hold(logger); !started.ok()) return started;
  const Use use(*this);
  std::list<Communicator> made(1);  // may throw, so it comes before there is a context to lose
  const Result<Context*> opened = engine()->open_context(options);
  if (!opened.ok()) return opened.status();
  made.front().context = opened.value();
  const Lock lock(mutex_);
  communicators_.splice(communicators_.end(), made);
  return &communicators_.back();
}

std::list<Communicator>::iterator Registry::find(const Communicator* wanted) noexcept {
  return std::find_if(communicators_.begin(), communicators_.end(),
                      [&](const Communicator& each) { return &each == wanted; });
}

bool Registry::is_open(const Communicator* communicator) noexcept {
  const Lock lock(mutex_);
  return find(communicator) != communicators_.end();
}

bool Registry::profiler_wanted() noexcept {
  const Lock lock(mutex_);
  return profiler_wanted_;
}

bool Registry::hold() noexcept {
  const Lock lock(mutex_);
  if (life_ == nullptr) return false;
  ++engine_users_;
  return true;
}

void Registry::release() noexcept {
  Lock lock(mutex_);
  CHECK(engine_users_ > 0 && life_ != nullptr);
  --engine_users_;
  const Life ended = take_if_unused();
  lock.unlock();
  settle(ended);
}

std::uint64_t Registry::one_shot_bytes() noexcept {
  const Lock lock(mutex_);
  return one_shot_bytes_;
}

std::string Registry::host() {
  const Lock lock(mutex_);
  return life_ == nullptr ? std::string() : life_->provider->host_name();
}

int Registry::stall_seconds() noexcept {
  const Lock lock(mutex_);
  return stall_seconds_;
}

void Registry::close_communicator(Communicator* communicator) noexcept {
  Engine* engine = nullptr;
  {
    const Lock lock(mutex_);
    const auto known = find(communicator);
    if (known == communicators_.end() || communicator->closing) {
      LOG_WARN("finalize without an open communicator is ignored");
      return;
    }
    communicator->closing = true;
    engine = life_->engine.get();
  }
  comms_.drop_all_of(communicator->context);
  engine->close_context(communicator->context);  // our entry in communicators_ keeps the engine
  Lock lock(mutex_);
  const auto closed = find(communicator);
  CHECK(closed != communicators_.end() && communicator->closing && life_->engine.get() == engine);
  communicators_.erase(closed);
  const Life ended = take_if_unused();
  lock.unlock();
  settle(ended);
}

void Registry::thread_ended(std::uint64_t thread) noexcept {
  if (in_forked_child() || !hold()) return;
  const Use use(*this);
  threads_.thread_ended(*engine(), thread);
}

Snapshot Registry::snapshot() {
  Snapshot shot;
  {
    const Lock lock(mutex_);
    shot = known_;
  }
  const bool running = hold();
  shot.plugin = version();
  shot.process.process = ::getpid();
  shot.process.now_s = unix_seconds();
  shot.process.running = running;
  shot.warnings = recent_lines(LogLevel::Warn);
  if (!running) return shot;
  const Use use(*this);
  shot.engine = engine()->snapshot();
  return shot;
}

// Ends the engine if nothing is open. With a comm or communicator still open, a thread of NCCL may
// be inside a data call. Then the engine waits only for messages of other hosts, and is left to the
// kernel, which ends our threads and tells the peers.
void Registry::process_exits() noexcept {
  if (in_forked_child()) return;
  drop_logger();
  Lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return;
  if (life_ != nullptr) {
    const bool in_use = !communicators_.empty() || engine_users_ != 0 || threads_.any_held();
    if (!in_use) held_for_process_ = false;
    ++engine_users_;
    lock.unlock();
    if (!in_use) threads_.close_all(*life_->engine);
    if (in_use && life_->stats != nullptr) static_cast<void>(life_->stats->finish());
    if (in_use) life_->engine->exit_process();
    lock.lock();
    const Life ended = --engine_users_ == 0 && !in_use && communicators_.empty() ? take() : nullptr;
    lock.unlock();
    settle(ended);
  }
  ends_.wait_at_exit();  // a peer that hears no goodbye takes us for killed
}

Status Registry::start_and_hold(ncclDebugLogger_t logger) {
  const Lock starting(starting_);
  // From here on nobody silences the logger: take_if_unused() not while the engine is held, and
  // settle() not while a communicator begins.
  const bool held = hold();
  use_logger(logger);
  if (held) return {};
  guard_forks();
  ends_.reserve();
  ends_.wait_for_peers();
  forget_lines();
  Snapshot known;
  known.process.start_s = unix_seconds();
  auto life = std::make_shared<EngineLife>();
  const Result<Settings> settings = load_settings();
  const Status made = settings.ok() ? open_engine(*settings, *life, known) : settings.status();
  note_start(made, known);
  if (made.ok()) start_stats(*settings, *life, known);
  const Lock lock(mutex_);
  known_ = std::move(known);
  if (made.ok()) publish(*settings, std::move(life));
  if (!made.ok() && ends_.any()) quiet_logger();  // as in settle()
  return made;
}

Status Registry::open_engine(const Settings& settings, EngineLife& life, Snapshot& known) {
  set_log_level(log_level_of(settings));
  set_log_times(wants_log_times(settings));
  for (auto& [name, value] : setting_values(settings)) known.settings.push_back({name, value});
  Result<std::unique_ptr<verbs::Provider>> provider = open_provider(settings, &known.no_rdma);
  if (!provider.ok()) return provider.status();
  known.fabric = (*provider)->fabric();

  EngineOptions options;
  options.settings = settings;
  // The engine calls it when the devices are open, because the rules look at them.
  options.choose_policy = [&settings](const FabricTraits& traits) {
    const TransferPolicy policy = tuning::derive_policy(traits, settings);
    LOG_INFO("policy: {}", tuning::policy_text(policy, settings));
    return policy;
  };
  options.provider = provider->get();
  options.refused_ports = &known.engine.refused_ports;
  Result<std::unique_ptr<Engine>> engine = Engine::open(options);
  if (!engine.ok()) {
    known.engine.host = (*provider)->host_name();
    return engine.status();
  }

  log_settings(settings);
  life.provider = std::move(*provider);
  life.engine = std::move(*engine);
  return {};
}

void Registry::publish(const Settings& settings, Life life) noexcept {
  profiler_wanted_ = names_profiler(settings.profiler);
  one_shot_bytes_ = static_cast<std::uint64_t>(settings.oneshot_bytes);
  stall_seconds_ = settings.stall_seconds;
  oneshot::Totals::instance().restart();
  DCHECK(life_ == nullptr && engine_users_ == 0);
  life_ = std::move(life);
  engine_users_ = 1;  // start_and_hold()
  engine_.store(life_->engine.get(), std::memory_order_release);
}

// Keeps the result of a start for snapshots, and the lines that say why it failed.
void Registry::note_start(const Status& made, Snapshot& known) noexcept {
  try {
    known.start = errc_name(made.code());
    if (!made.ok()) known.start_lines = recent_lines(LogLevel::Info);
  } catch (const std::exception& error) {
    LOG_WARN("snapshots will not say how the start went: {}", error.what());
  }
}

// Starts the metrics writer. An init never fails because of metrics.
void Registry::start_stats(const Settings& settings, EngineLife& life, Snapshot& known) noexcept {
  try {
    const std::optional<StatsTarget> target = read_stats_target(settings.stats);
    if (!target) return;  // no metrics are wanted
    if (ends_.page_hangs()) {
      LOG_WARN(
          "NCCL_MESH_STATS: a write of {} by an earlier communicator still hangs; there will be no "
          "metrics",
          target->file);
      return;
    }
    known.process.interval_s = static_cast<std::uint64_t>(target->seconds);
    const std::string page = stats_file_name(target->file, life.provider->host_name(), ::getpid());
    life.stats = StatsWriter::start(
        {.files = {page, snapshot_file_name(page)},
         .period = std::chrono::seconds(target->seconds),
         .texts = [engine = life.engine.get(), shot = known](PageKind kind) mutable {
           shot.process.process = ::getpid();
           shot.process.now_s = unix_seconds();
           shot.process.running = kind == PageKind::Usual;
           const oneshot::Totals& one_shot = oneshot::Totals::instance();
           shot.process.one_shot_calls = one_shot.all_reduces.load(std::memory_order_relaxed);
           shot.process.one_shot_bytes = one_shot.bytes.load(std::memory_order_relaxed);
           shot.plugin = version();
           shot.warnings = recent_lines(LogLevel::Warn);
           shot.engine = engine->snapshot();
           return std::vector{metrics_page(shot.engine, shot.process), to_json(shot)};
         }});
  } catch (const std::exception& error) {
    LOG_WARN("NCCL_MESH_STATS: {}; there will be no metrics", error.what());
  }
}

Registry::Life Registry::take_if_unused() noexcept {
  if (life_ == nullptr || !communicators_.empty() || held_for_process_ || engine_users_ != 0)
    return nullptr;
  // Other hosts' messages pass through this engine, so it stays: the next init takes it as it is,
  // or the end of the process waits for those messages.
  if (!life_->engine->carries_for_others()) return take();
  quiet_logger();
  return nullptr;
}

Registry::Life Registry::take() noexcept {
  engine_.store(nullptr, std::memory_order_release);
  ends_.begin(life_);
  return std::exchange(life_, nullptr);
}

// NCCL may be unloaded after its last finalize, and threads of the engine may go on: those that
// wait for peers, for a device, or for the file of metrics. The next init sets the logger again.
void Registry::settle(const Life& ended) noexcept {
  if (ended == nullptr) return;
  ends_.settle(*ended);
  const Lock starting(starting_, std::try_to_lock);  // false: a communicator begins
  const Lock lock(mutex_);
  if (starting.owns_lock() && life_ == nullptr && ends_.any()) quiet_logger();
}

}  // namespace mesh::plugin

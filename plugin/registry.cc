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
#include "src/base/own_thread.h"
#include "src/base/setting_grammar.h"
#include "src/base/version.h"
#include "tuning/derive.h"
#include "tuning/knob.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include <strings.h>
#include <unistd.h>

namespace mesh::plugin {

void EngineEnd::begin(std::unique_ptr<verbs::Provider> provider,
                      std::unique_ptr<Engine> engine) noexcept {
  CHECK(engine_ == nullptr && !thread_.joinable());
  provider_ = std::move(provider);
  engine_ = std::move(engine);
  if (engine_ != nullptr && engine_->waits_for_peers() &&
      start_own_thread(thread_, "mesh-goodbye", [this] { end(); }).ok())
    return;
  end();
}

void EngineEnd::end() noexcept {
  engine_.reset();
  provider_.reset();
}

void EngineEnd::wait() noexcept {
  if (thread_.joinable()) thread_.join();
}

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

Status Registry::hold_for_process() {
  const std::lock_guard lock(mutex_);
  if (const Status made = make_engine(); !made.ok()) return made;
  held_for_process_ = true;
  return {};
}

Result<Communicator*> Registry::open_communicator(const ContextOptions& options) {
  const std::lock_guard lock(mutex_);
  if (const Status made = make_engine(); !made.ok()) return made;
  try {
    // These may throw, so they come before there is a context to lose.
    communicators_.reserve(communicators_.size() + 1);
    auto communicator = std::make_unique<Communicator>();
    const Result<Context*> opened = owned_->open_context(options);
    if (!opened.ok()) {
      unmake_engine_if_unused();
      return opened.status();
    }
    communicator->context = opened.value();
    communicators_.push_back(std::move(communicator));
    return communicators_.back().get();
  } catch (...) {
    unmake_engine_if_unused();
    throw;
  }
}

std::vector<std::unique_ptr<Communicator>>::iterator Registry::find(
    const Communicator* wanted) noexcept {
  return std::find_if(communicators_.begin(), communicators_.end(),
                      [&](const auto& each) { return each.get() == wanted; });
}

bool Registry::is_open(const Communicator* communicator) noexcept {
  const std::lock_guard lock(mutex_);
  return find(communicator) != communicators_.end();
}

bool Registry::profiler_wanted() noexcept {
  const std::lock_guard lock(mutex_);
  return profiler_wanted_;
}

bool Registry::hold() noexcept {
  const std::lock_guard lock(mutex_);
  if (owned_ == nullptr) return false;
  ++engine_users_;
  return true;
}

void Registry::release() noexcept {
  const std::lock_guard lock(mutex_);
  leave_engine();
}

std::uint64_t Registry::one_shot_bytes() noexcept {
  const std::lock_guard lock(mutex_);
  return one_shot_bytes_;
}

std::string Registry::host() {
  const std::lock_guard lock(mutex_);
  return provider_ == nullptr ? std::string() : provider_->host_name();
}

int Registry::stall_seconds() noexcept {
  const std::lock_guard lock(mutex_);
  return stall_seconds_;
}

void Registry::close_communicator(Communicator* communicator) noexcept {
  Engine* engine = nullptr;
  {
    const std::lock_guard lock(mutex_);
    const auto known = find(communicator);
    if (known == communicators_.end() || communicator->closing) {
      LOG_WARN("finalize without an open communicator is ignored");
      return;
    }
    communicator->closing = true;
    engine = owned_.get();
  }
  comms_.drop_all_of(communicator->context);
  // The mutex is not held, so that other communicators begin and end meanwhile; our entry in
  // communicators_ keeps the engine.
  engine->close_context(communicator->context);
  const std::lock_guard lock(mutex_);
  const auto closed = find(communicator);
  CHECK(closed != communicators_.end() && communicator->closing && owned_.get() == engine);
  communicators_.erase(closed);
  unmake_engine_if_unused();
}

void Registry::leave_engine() noexcept {
  CHECK(engine_users_ > 0 && owned_ != nullptr);
  --engine_users_;
  unmake_engine_if_unused();
}

// Closes the thread's contexts without the mutex. engine_users_ keeps the engine meanwhile.
void Registry::thread_ended(std::uint64_t thread) noexcept {
  if (in_forked_child()) return;
  {
    const std::lock_guard lock(mutex_);
    if (owned_ == nullptr) return;
    ++engine_users_;
  }
  threads_.thread_ended(*owned_, thread);
  const std::lock_guard lock(mutex_);
  leave_engine();
}

// Asks the engine without the mutex, because the firmware of a port may take its time.
Snapshot Registry::snapshot() {
  Snapshot shot;
  Engine* engine = nullptr;
  {
    const std::lock_guard lock(mutex_);
    shot = known_;
    engine = owned_.get();
    if (engine != nullptr) ++engine_users_;
  }
  shot.plugin = version();
  shot.process.process = ::getpid();
  shot.process.now_s = unix_seconds();
  shot.process.running = engine != nullptr;
  shot.warnings = recent_lines(LogLevel::Warn);
  if (engine == nullptr) return shot;
  std::exception_ptr failure;
  try {
    shot.engine = engine->snapshot();
  } catch (...) {
    failure = std::current_exception();
  }
  const std::lock_guard lock(mutex_);
  leave_engine();
  if (failure) std::rethrow_exception(failure);
  return shot;
}

// Ends the engine if nothing is open. With a comm or communicator still open, a thread of NCCL may
// be inside a data call. Then the engine waits only for messages of other hosts, and is left to the
// kernel, which ends our threads and tells the peers.
void Registry::process_exits() noexcept {
  if (in_forked_child()) return;
  drop_logger();
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return;
  finish_stats();
  if (owned_ != nullptr && communicators_.empty() && engine_users_ == 0 && !threads_.any_held()) {
    held_for_process_ = false;
    threads_.close_all(*owned_);
    unmake_engine();
  } else if (owned_ != nullptr) {
    owned_->exit_process();
  }
  end_.wait();  // a peer that hears no goodbye takes us for killed
}

Status Registry::make_engine() {
  if (owned_ != nullptr) return {};
  guard_forks();
  end_.wait();  // two engines would both be this host
  forget_lines();
  known_ = {};
  known_.process.start_s = unix_seconds();
  const Result<Settings> settings = load_settings();
  const Status made = settings.ok() ? open_engine(*settings) : settings.status();
  note_start(made);
  if (made.ok()) start_stats(*settings);
  return made;
}

Status Registry::open_engine(const Settings& settings) {
  set_log_level(log_level_of(settings));
  set_log_times(wants_log_times(settings));
  for (auto& [name, value] : setting_values(settings)) known_.settings.push_back({name, value});
  Result<std::unique_ptr<verbs::Provider>> provider = open_provider(settings, &known_.no_rdma);
  if (!provider.ok()) return provider.status();
  known_.fabric = (*provider)->fabric();

  EngineOptions options;
  options.settings = settings;
  // The engine calls it when the devices are open, because the rules look at them.
  options.choose_policy = [&settings](const FabricTraits& traits) {
    const TransferPolicy policy = tuning::derive_policy(traits, settings);
    LOG_INFO("policy: {}", tuning::policy_text(policy, settings));
    return policy;
  };
  options.provider = provider->get();
  options.refused_ports = &known_.engine.refused_ports;
  Result<std::unique_ptr<Engine>> engine = Engine::open(options);
  if (!engine.ok()) {
    known_.engine.host = (*provider)->host_name();
    return engine.status();
  }

  log_settings(settings);
  provider_ = std::move(*provider);
  owned_ = std::move(*engine);
  profiler_wanted_ = names_profiler(settings.profiler);
  one_shot_bytes_ = static_cast<std::uint64_t>(settings.oneshot_bytes);
  stall_seconds_ = settings.stall_seconds;
  oneshot::Totals::instance().restart();
  DCHECK(engine_.load(std::memory_order_relaxed) == nullptr && stats_ == nullptr);
  engine_.store(owned_.get(), std::memory_order_release);
  return {};
}

// Keeps the result of a start for snapshots, and the lines that say why it failed.
void Registry::note_start(const Status& made) noexcept {
  try {
    known_.start = errc_name(made.code());
    if (!made.ok()) known_.start_lines = recent_lines(LogLevel::Info);
  } catch (const std::exception& error) {
    LOG_WARN("snapshots will not say how the start went: {}", error.what());
  }
}

// Starts the metrics writer. An init never fails because of metrics.
void Registry::start_stats(const Settings& settings) noexcept {
  try {
    const std::optional<StatsTarget> target = read_stats_target(settings.stats);
    if (!target) return;  // no metrics are wanted
    if (hung_stats_ != nullptr && !hung_stats_->has_ended()) {
      LOG_WARN(
          "NCCL_MESH_STATS: a write of {} by an earlier communicator still hangs; there will be no "
          "metrics",
          target->file);
      return;
    }
    hung_stats_.reset();
    known_.process.interval_s = static_cast<std::uint64_t>(target->seconds);
    const std::string page = stats_file_name(target->file, provider_->host_name(), ::getpid());
    stats_ = StatsWriter::start(
        {.files = {page, snapshot_file_name(page)},
         .period = std::chrono::seconds(target->seconds),
         .texts = [engine = owned_.get(), shot = known_](PageKind kind) mutable {
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

// Ends the metrics writer. A writer that hangs in the file system stays in hung_stats_, and no
// other is started before it has ended.
void Registry::finish_stats() noexcept {
  DCHECK(stats_ == nullptr || hung_stats_ == nullptr);
  if (stats_ != nullptr && !stats_->finish()) hung_stats_ = std::move(stats_);
  stats_.reset();
}

void Registry::unmake_engine_if_unused() noexcept {
  if (!communicators_.empty() || held_for_process_ || engine_users_ != 0) return;
  // Other hosts' messages pass through this engine, so it stays: the next init takes it as it is,
  // or the end of the process waits for those messages.
  if (owned_ != nullptr && owned_->carries_for_others()) return quiet_logger();
  unmake_engine();
}

void Registry::unmake_engine() noexcept {
  finish_stats();
  engine_.store(nullptr, std::memory_order_release);
  if (owned_ != nullptr) end_.begin(std::move(provider_), std::move(owned_));
  // NCCL may be unloaded after its last finalize. The next init sets the logger again.
  if (end_.under_way()) quiet_logger();
}

}  // namespace mesh::plugin

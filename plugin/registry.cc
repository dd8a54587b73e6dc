#include "plugin/registry.h"

#include "plugin/logger.h"
#include "plugin/metrics_text.h"
#include "plugin/policy_choice.h"
#include "plugin/provider.h"
#include "src/base/config.h"
#include "src/base/fork_guard.h"
#include "src/base/log.h"
#include "src/base/stats_target.h"

#include <unistd.h>
#include <chrono>
#include <new>
#include <utility>

namespace mesh::plugin {

namespace {

std::uint64_t unix_seconds() {
  using std::chrono::system_clock;
  return static_cast<std::uint64_t>(system_clock::to_time_t(system_clock::now()));
}

// At exit, or at an unload that did not honour -z nodelete.
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

Result<Context*> Registry::open_communicator(const ContextOptions& options) {
  const std::lock_guard lock(mutex_);
  if (const Status made = make_engine(); !made.ok()) return made;
  const Result<Context*> opened = owned_->open_context(options);
  if (opened.ok()) ++communicators_;
  if (!opened.ok()) unmake_engine_if_unused();
  return opened;
}

void Registry::close_communicator(Context* context) noexcept {
  Engine* engine = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (communicators_ == 0) {
      LOG_WARN("finalize without an open communicator is ignored");
      return;
    }
    engine = owned_.get();
  }
  // Without the mutex, for it may take a second: other communicators begin and end meanwhile, and our count keeps the engine.
  engine->close_context(context);
  const std::lock_guard lock(mutex_);
  --communicators_;
  unmake_engine_if_unused();
}

void Registry::thread_ended(std::uint64_t thread) noexcept {
  if (in_forked_child()) return;
  const std::lock_guard lock(mutex_);
  if (owned_ != nullptr) threads_.thread_ended(*owned_, thread);
}

// With a comm or communicator still open, one of NCCL's threads may be inside a data call at this moment: then the engine
// is left to the kernel, which ends our threads and tells the peers, and only the way into NCCL's logger is closed.
void Registry::process_exits() noexcept {
  if (in_forked_child()) return;
  drop_logger();
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return;
  finish_stats();
  if (owned_ == nullptr || communicators_ != 0 || threads_.any_held()) return;
  held_for_process_ = false;
  threads_.close_all(*owned_);
  unmake_engine_if_unused();
}

Status Registry::make_engine() {
  if (owned_ != nullptr) return {};
  const Result<Settings> settings = load_settings();
  if (!settings.ok()) return settings.status();
  set_log_level(log_level_of(*settings));
  Result<std::unique_ptr<verbs::Provider>> provider = open_provider(*settings);
  if (!provider.ok()) return provider.status();

  EngineOptions options;
  options.settings = *settings;
  Result<ProfileChoice> profile = load_profile(*settings);
  if (!profile.ok()) return profile.status();
  // Asked when the devices are open, for the rules look at what these are.
  options.choose_policy = [&](const FabricTraits& traits) { return choose_policy(*settings, *profile, traits); };
  options.provider = provider->get();
  Result<std::unique_ptr<Engine>> engine = Engine::open(options);
  if (!engine.ok()) return engine.status();

  log_settings(*settings);
  provider_ = std::move(*provider);
  owned_ = std::move(*engine);
  engine_.store(owned_.get(), std::memory_order_release);
  start_stats(*settings);
  return {};
}

void Registry::start_stats(const Settings& settings) {
  const std::optional<StatsTarget> target = read_stats_target(settings.stats);
  if (!target) return;  // none wanted
  ProcessFacts facts{.process = ::getpid(), .start_s = unix_seconds()};
  stats_ = StatsWriter::start({.file = stats_file_name(target->file, provider_->host_name(), facts.process),
                               .period = std::chrono::seconds(target->seconds),
                               .page = [engine = owned_.get(), facts](PageKind kind) mutable {
                                 facts.now_s = unix_seconds();
                                 facts.running = kind == PageKind::Usual;
                                 return metrics_page(engine->snapshot(), facts);
                               }});
}

// A writer that hangs in the file system is left to the kernel.
void Registry::finish_stats() noexcept {
  if (stats_ != nullptr && !stats_->finish()) static_cast<void>(stats_.release());
  stats_.reset();
}

void Registry::unmake_engine_if_unused() noexcept {
  if (communicators_ != 0 || held_for_process_) return;
  finish_stats();
  engine_.store(nullptr, std::memory_order_release);
  owned_.reset();
  provider_.reset();
}

}  // namespace mesh::plugin

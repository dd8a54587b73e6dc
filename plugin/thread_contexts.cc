#include "plugin/thread_contexts.h"

#include "plugin/registry.h"
#include "src/base/check.h"
#include "src/base/log.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <list>
#include <optional>

namespace mesh::plugin {

void OpenComms::add(const void* comm, Context* context) {
  DCHECK(comm != nullptr && context != nullptr);
  const std::lock_guard lock(mutex_);
  contexts_.insert_or_assign(comm, context);
}

bool OpenComms::empty() const {
  const std::lock_guard lock(mutex_);
  return contexts_.empty();
}

Context* OpenComms::context_of(const void* comm) const {
  const std::lock_guard lock(mutex_);
  const auto found = contexts_.find(comm);
  return found == contexts_.end() ? nullptr : found->second;
}

Context* OpenComms::take(const void* comm) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = contexts_.find(comm);
  if (found == contexts_.end()) return nullptr;
  Context* const context = found->second;
  contexts_.erase(found);
  return context;
}

void OpenComms::drop_all_of(const Context* context) noexcept {
  const std::lock_guard lock(mutex_);
  std::erase_if(contexts_, [context](const auto& entry) { return entry.second == context; });
}

namespace {

std::atomic<std::uintptr_t> g_next_thread{1};

void on_thread_end(void* number) noexcept {
  Registry::instance().thread_ended(reinterpret_cast<std::uintptr_t>(number));
}

// Returns the key under which each thread has its number, and by which the registry hears of the
// thread's end. None if the process has no key left. A key needs no thread-local memory, which the
// loader would allocate for each thread.
std::optional<pthread_key_t> number_key() noexcept {
  static const std::optional<pthread_key_t> key = []() -> std::optional<pthread_key_t> {
    pthread_key_t made = 0;
    if (::pthread_key_create(&made, on_thread_end) != 0) return std::nullopt;
    return made;
  }();
  return key;
}

// Returns the calling thread's number, which is never used again, unlike the system's thread ids.
// Errc::System: no key or no memory.
Result<std::uint64_t> this_thread_number() noexcept {
  const std::optional<pthread_key_t> key = number_key();
  if (!key) return Errc::System;
  if (const void* const known = ::pthread_getspecific(*key); known != nullptr)
    return reinterpret_cast<std::uintptr_t>(known);
  const std::uintptr_t number = g_next_thread.fetch_add(1, std::memory_order_relaxed);
  if (::pthread_setspecific(*key, reinterpret_cast<void*>(number)) != 0) return Errc::System;
  return std::uint64_t{number};
}

}  // namespace

Result<Context*> ThreadContexts::of_this_thread(Engine& engine, int traffic_class) {
  const Result<std::uint64_t> number = this_thread_number();
  if (!number.ok()) {
    LOG_WARN("a thread gets no number: the process has no thread-specific key or no memory left");
    return number.status();
  }
  const std::uint64_t thread = *number;
  std::unique_lock lock(mutex_);
  for (const Entry& entry : entries_) {
    if (entry.thread == thread && entry.traffic_class == traffic_class) return entry.context;
  }
  // Only this thread opens the context, and a device may hold it up.
  ++moving_;
  lock.unlock();
  Result<Context*> opened = Errc::System;
  std::list<Entry> made;
  try {
    made.push_back({.thread = thread, .traffic_class = traffic_class});
    opened = engine.open_context({.traffic_class = traffic_class});
  } catch (const std::exception& error) {
    LOG_WARN("a thread gets no context: {}", error.what());
  }
  lock.lock();
  --moving_;
  if (!opened.ok()) return opened;
  made.front().context = opened.value();
  entries_.splice(entries_.end(), made);
  return opened;
}

void ThreadContexts::hold(const Context* context, CommKind kind) noexcept {
  const std::lock_guard lock(mutex_);
  if (Entry* const entry = find(context); entry != nullptr) ++entry->count(kind);
}

void ThreadContexts::release(Engine& engine, const Context* context, CommKind kind) noexcept {
  {
    const std::lock_guard lock(mutex_);
    Entry* const entry = find(context);
    if (entry == nullptr) return;
    CHECK(entry->count(kind) > 0);
    --entry->count(kind);
  }
  close_idle_of_dead_threads(engine);
}

void ThreadContexts::thread_ended(Engine& engine, std::uint64_t thread) noexcept {
  {
    const std::lock_guard lock(mutex_);
    for (Entry& entry : entries_) {
      if (entry.thread == thread) entry.thread = 0;
    }
  }
  close_idle_of_dead_threads(engine);
}

bool ThreadContexts::any_held() const {
  const std::lock_guard lock(mutex_);
  return moving_ != 0 || std::any_of(entries_.begin(), entries_.end(), [](const Entry& entry) {
           return entry.listeners + entry.channels != 0;
         });
}

std::size_t ThreadContexts::count() const {
  const std::lock_guard lock(mutex_);
  return entries_.size();
}

void ThreadContexts::close_all(Engine& engine) noexcept {
  close_where(engine, [](const Entry&) { return true; });
}

ThreadContexts::Entry* ThreadContexts::find(const Context* context) noexcept {
  const auto entry = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Entry& e) { return e.context == context; });
  return entry == entries_.end() ? nullptr : &*entry;
}

// Closes the wanted contexts one at a time and without the mutex, because other threads open and
// close comms meanwhile. Listeners that are still open end with their context.
template <typename Wanted>
void ThreadContexts::close_where(Engine& engine, Wanted wanted) noexcept {
  for (;;) {
    std::unique_lock lock(mutex_);
    const auto found = std::find_if(entries_.begin(), entries_.end(), wanted);
    if (found == entries_.end()) return;
    Context* const context = found->context;
    entries_.erase(found);
    ++moving_;
    lock.unlock();
    comms_.drop_all_of(context);
    engine.close_context(context);
    lock.lock();
    DCHECK(moving_ > 0);
    --moving_;
  }
}

void ThreadContexts::close_idle_of_dead_threads(Engine& engine) noexcept {
  close_where(engine, [](const Entry& entry) { return entry.thread == 0 && entry.channels == 0; });
}

}  // namespace mesh::plugin

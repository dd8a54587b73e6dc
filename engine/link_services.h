#pragma once
// The engine's implementation of LinkHost: one object for all links. Every call checks that its
// caller holds the control mutex, except the calls that return what never changes. Thread: control
// mutex. Bounds: none of its own.

#include "engine/figures.h"
#include "engine/link/link_host.h"
#include "engine/link/relay/relay_client.h"
#include "src/base/check.h"
#include "src/base/clock.h"
#include "src/base/held_locks.h"
#include "src/base/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

namespace mesh::engine {

// The engine's control mutex. It knows its holder, so that code that needs it can check that the
// calling thread holds it. Thread: any.
class ControlMutex {
 public:
  void lock() {
    mutex_.lock();
    note_holder(std::this_thread::get_id());
    note_control_mutex(+1);
  }
  bool try_lock() {
    if (!mutex_.try_lock()) return false;
    note_holder(std::this_thread::get_id());
    note_control_mutex(+1);
    return true;
  }
  void unlock() {
    note_control_mutex(-1);
    note_holder({});
    mutex_.unlock();
  }
  bool held_here() const noexcept {
    return holder_.load(std::memory_order_relaxed) == std::this_thread::get_id();
  }

 private:
  // Relaxed order suffices: held_here() needs only what the calling thread itself has written.
  void note_holder(std::thread::id id) noexcept { holder_.store(id, std::memory_order_relaxed); }

  std::mutex mutex_;
  std::atomic<std::thread::id> holder_{};
};

class LinkServices final : public LinkHost {
 public:
  // Parts of the engine. They outlive this object and all links.
  struct Parts {
    const ControlMutex& mutex;
    const EngineOptions& options;
    const std::vector<verbs::Rail>& rails;
    const Clock& clock;
    const std::unique_ptr<ControlPlane>& plane;
    LogBudget& unauthenticated_lines;
    Figures& figures;
    ChannelOwner& channels;
    ControlWaker& waker;
    ThreadPool& thread_pool;
    RelayClient* relays = nullptr;  // null: the process takes no part in relays
    CableProofs* cables = nullptr;
    Neighbours* neighbours = nullptr;
  };
  explicit LinkServices(const Parts& parts) : parts_(parts) {}

  const EngineOptions& options() const noexcept override { return parts_.options; }
  std::span<const verbs::Rail> rails() const noexcept override { return parts_.rails; }
  ChannelOwner& channel_owner() noexcept override { return parts_.channels; }
  ControlWaker& waker() noexcept override { return parts_.waker; }
  ThreadPool& thread_pool() noexcept override { return parts_.thread_pool; }
  RelayClient* relays() noexcept override {
    return ticket() == Id128{} ? nullptr : checked().relays;
  }
  const Id128& ticket() const noexcept override {
    return parts_.relays == nullptr ? LinkHost::ticket() : parts_.relays->ticket();
  }
  CableProofs* cables() noexcept override { return checked().cables; }
  Neighbours* neighbours() noexcept override { return checked().neighbours; }
  std::uint64_t now_ns() const noexcept override { return checked().clock.now_ns(); }
  ControlPlane& plane() noexcept override { return *checked().plane; }
  LogBudget& unauthenticated_lines() noexcept override { return checked().unauthenticated_lines; }
  LinkCounts& counts() noexcept override { return checked().figures.counts; }
  LinkIndex& index() noexcept override {
    static_cast<void>(checked());
    return index_;
  }
  void keep_figures(const Link& link) noexcept override {
    checked().figures.keep(link, parts_.clock.now_ns());
  }
  void tend_at(std::uint64_t at_ns) noexcept override {
    static_cast<void>(checked());
    due_ns_ = std::min(due_ns_, at_ns);
  }
  void tend_soon() noexcept override {
    static_cast<void>(checked());
    due_soon_ = true;
  }

  // ---- For the engine: when it must tend the links next.
  std::uint64_t due_ns() const noexcept { return due_ns_; }
  bool due_soon() const noexcept { return due_soon_; }
  void begin_pass() noexcept { due_ns_ = UINT64_MAX; }
  void end_pass(bool soon) noexcept { due_soon_ = soon; }

 private:
  const Parts& checked() const noexcept {
    CHECK(parts_.mutex.held_here());
    return parts_;
  }

  const Parts parts_;
  LinkIndex index_;
  std::uint64_t due_ns_ = UINT64_MAX;
  bool due_soon_ = false;
};

}  // namespace mesh::engine

#pragma once
// Contexts for callers of v5..v10, whose calls name none. There is one for each thread that calls
// listen or connect, and for each traffic class. NCCL calls both from a communicator's service
// thread, so each communicator has one. Those callers have no finalize either: a context whose
// thread has ended closes with its last channel. Its listeners do not keep it open, because NCCL
// does not close the listeners of connects that it gave up, and only the thread that listens
// accepts. Thread: any; locks. Bound: a context for each living thread and traffic class, and one
// for each dead thread with open channels.

#include <mesh/engine.h>
#include <mesh/status.h>

#include <cstddef>
#include <cstdint>
#include <list>
#include <mutex>
#include <unordered_map>

namespace mesh::plugin {

// The comms that NCCL got and has not closed, by address, each with its context. NCCL may close a
// comm after the finalize that has destroyed it. Such a comm is no longer here, and its close is
// ignored. Thread: any; locks. Bound: one entry for each open comm.
class OpenComms {
 public:
  void add(const void* comm, Context* context);  // throws bad_alloc without adding anything
  bool empty() const;
  Context* context_of(const void* comm) const;  // null: it is not open
  Context* take(const void* comm) noexcept;     // removes it; null: it was not open
  void drop_all_of(const Context* context) noexcept;

 private:
  mutable std::mutex mutex_;
  std::unordered_map<const void*, Context*> contexts_;
};

enum class CommKind : std::uint8_t { Listener, Channel };

class ThreadContexts {
 public:
  explicit ThreadContexts(OpenComms& comms) : comms_(comms) {}

  // Returns the calling thread's context, and opens it at the first call.
  Result<Context*> of_this_thread(Engine& engine, int traffic_class);

  // A comm is counted from hold() until release(), which follows the comm's close and may close the
  // context. Both ignore unknown contexts, which are those of v11 and later.
  void hold(const Context* context, CommKind kind) noexcept;
  void release(Engine& engine, const Context* context, CommKind kind) noexcept;

  void thread_ended(Engine& engine, std::uint64_t thread) noexcept;
  // Returns true if a context has a comm or is being opened or closed, so that the engine must
  // stay.
  bool any_held() const;
  std::size_t count() const;
  void close_all(Engine& engine) noexcept;

 private:
  struct Entry {
    Context* context = nullptr;
    std::uint64_t thread = 0;  // 0: the thread has ended
    int traffic_class = 0;
    std::size_t listeners = 0;
    std::size_t channels = 0;

    std::size_t& count(CommKind kind) noexcept {
      return kind == CommKind::Listener ? listeners : channels;
    }
  };

  Entry* find(const Context* context) noexcept;
  template <typename Wanted>
  void close_where(Engine& engine, Wanted wanted) noexcept;
  void close_idle_of_dead_threads(Engine& engine) noexcept;

  OpenComms& comms_;
  mutable std::mutex mutex_;
  std::list<Entry> entries_;
  int moving_ = 0;  // contexts that are being opened or closed, without the mutex
};

}  // namespace mesh::plugin

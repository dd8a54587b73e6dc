#pragma once
// Contexts for callers of v5..v10, which know none: one per thread that calls listen or connect, and per traffic class. NCCL
// does both from a communicator's service thread, so this is one per communicator in all but name.
// Those callers have no finalize either: a context whose thread has ended closes with its last comm.
// Thread: any; locks. Bound: a context per living thread and traffic class, and one per dead thread with comms still open.

#include <mesh/engine.h>
#include <mesh/status.h>

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace mesh::plugin {

class ThreadContexts {
 public:
  // The calling thread's context, opened at its first call.
  Result<Context*> of_this_thread(Engine& engine, int traffic_class);

  // A comm keeps its context open. Unknown contexts and comms (those of v11 and later) are none of ours and ignored.
  void hold(const void* comm, const Context* context);
  void hold_like(const void* comm, const void* listener);

  // Around a comm's close: forgotten before, as its address may come back at once in another thread; released after, as
  // that may close the context beneath it. Null: none of ours.
  Context* forget(const void* comm);
  void release(Engine& engine, const Context* context);

  void thread_ended(Engine& engine, std::uint64_t thread);
  bool any_held() const;
  std::size_t count() const;
  void close_all(Engine& engine);

 private:
  struct Entry {
    Context* context = nullptr;
    std::uint64_t thread = 0;  // 0: ended
    int traffic_class = 0;
    std::size_t comms = 0;
  };

  Entry* find(const Context* context);
  void close_idle_of_dead_threads(Engine& engine);

  mutable std::mutex mutex_;
  std::vector<Entry> entries_;
  std::unordered_map<const void*, Context*> comms_;
};

}  // namespace mesh::plugin

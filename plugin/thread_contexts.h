#pragma once
// Contexts for callers of v5..v10, which know none: one per thread that calls listen or connect,
// and per traffic class. NCCL does both from a communicator's service thread, so this is one per
// communicator in all but name. Those callers have no finalize either: a context whose thread has
// ended closes with its last comm. Thread: any; locks. Bound: a context per living thread and
// traffic class, and one per dead thread with comms still open.

#include <mesh/engine.h>
#include <mesh/status.h>

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

namespace mesh::plugin {

class ThreadContexts {
 public:
  // The calling thread's context, opened at its first call.
  Result<Context*> of_this_thread(Engine& engine, int traffic_class);

  // A comm keeps its context open, from hold() until release(), which comes after the comm's close
  // and may close the context beneath it. Unknown contexts (those of v11 and later) are none of
  // ours and ignored.
  void hold(const Context* context) noexcept;
  void release(Engine& engine, const Context* context) noexcept;

  void thread_ended(Engine& engine, std::uint64_t thread) noexcept;
  bool any_held()
      const;  // by a comm, or by a call that closes it at this moment: the engine must stay
  std::size_t count() const;
  void close_all(Engine& engine) noexcept;

 private:
  struct Entry {
    Context* context = nullptr;
    std::uint64_t thread = 0;  // 0: ended
    int traffic_class = 0;
    std::size_t comms = 0;
  };

  Entry* find(const Context* context) noexcept;
  template <typename Wanted>
  void close_where(Engine& engine, Wanted wanted) noexcept;
  void close_idle_of_dead_threads(Engine& engine) noexcept;

  mutable std::mutex mutex_;
  std::vector<Entry> entries_;
  int closing_ = 0;  // contexts that are no entries any more and not yet closed
};

}  // namespace mesh::plugin

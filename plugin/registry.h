#pragma once
// The one engine of the process, shared by every version of the table. The first init makes it, and
// the last finalize ends it. Callers of v5..v10 never finalize; once one of them has called
// init, the engine stays until the process exits. Thread: any; init and finalize lock, engine()
// does not. The mutex is held for no call that waits for a device, a file or a peer. Bound: one
// engine, and those that end (engine_ends.h).

#include <mesh/engine.h>
#include <mesh/status.h>

#include "plugin/communicator.h"
#include "plugin/engine_ends.h"
#include "plugin/nccl/types.h"
#include "plugin/thread_contexts.h"
#include "src/base/snapshot_json.h"

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>

namespace mesh::plugin {

class Registry {
 public:
  static Registry& instance();  // never destroyed: NCCL's threads may outlive static destructors

  Status hold_for_process(ncclDebugLogger_t logger);  // init of v5..v10
  Result<Communicator*> open_communicator(const ContextOptions& options,
                                          ncclDebugLogger_t logger);  // init of v11 and later
  // finalize; waits for no peer, and for devices as EngineEnds::settle() does.
  void close_communicator(Communicator* communicator) noexcept;

  bool is_open(const Communicator* communicator) noexcept;
  // Keeps the engine until release(), whoever else ends. Returns false if there is none.
  bool hold() noexcept;
  void release() noexcept;
  // NCCL_MESH_ONESHOT_BYTES as the engine was made; 0: one-shot all-reduce is off.
  std::uint64_t one_shot_bytes() noexcept;
  // The host's name and NCCL_MESH_STALL_SECONDS as the engine was made.
  std::string host();
  int stall_seconds() noexcept;
  // Returns true if NCCL_PROFILER_PLUGIN names a profiler.
  bool profiler_wanted() noexcept;

  // Returns what the plugin knows now, or why its latest start failed.
  Snapshot snapshot();

  // Returns null while there is no engine.
  Engine* engine() const noexcept { return engine_.load(std::memory_order_acquire); }
  ThreadContexts& threads() noexcept { return threads_; }
  OpenComms& comms() noexcept { return comms_; }

  void thread_ended(std::uint64_t thread) noexcept;
  void process_exits() noexcept;

 private:
  using Lock = std::unique_lock<std::mutex>;
  using Life = std::shared_ptr<EngineLife>;
  class Use;

  // hold(), after making the engine if there is none. NCCL's logger gets its lines, and the end of
  // an earlier communicator does not silence it any more.
  Status start_and_hold(ncclDebugLogger_t logger);
  static Status open_engine(const Settings& settings, EngineLife& life, Snapshot& known);
  static void note_start(const Status& made, Snapshot& known) noexcept;
  void start_stats(const Settings& settings, EngineLife& life, Snapshot& known) noexcept;
  void publish(const Settings& settings, Life life) noexcept;  // with mutex_
  // With mutex_: returns the engine if nothing keeps it, for settle(). Null: it stays.
  Life take_if_unused() noexcept;
  Life take() noexcept;
  void settle(const Life& ended) noexcept;  // without mutex_
  std::list<Communicator>::iterator find(const Communicator* wanted) noexcept;

  std::mutex starting_;  // held while an engine is opened; locked before mutex_
  mutable std::mutex mutex_;
  Life life_;
  std::atomic<Engine*> engine_{
      nullptr};  // that of life_; released in publish, acquired in engine()
  std::list<Communicator> communicators_;
  bool held_for_process_ = false;
  bool profiler_wanted_ = false;
  Snapshot known_;  // what does not change while the engine lives; also of a start that failed
  // Users of the engine without the mutex: calls that open or close a context or take a snapshot,
  // and hold() without its release().
  int engine_users_ = 0;
  std::uint64_t one_shot_bytes_ = 0;
  int stall_seconds_ = 0;
  OpenComms comms_;
  ThreadContexts threads_{comms_};
  EngineEnds ends_;
};

}  // namespace mesh::plugin

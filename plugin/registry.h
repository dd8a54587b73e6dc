#pragma once
// The one engine of the process, shared by every version of the table. The first init makes it, and
// the last finalize ends it. Callers of v5..v10 never finalize; once one of them has called
// init, the engine stays until the process exits. Thread: any; init and finalize lock, engine()
// does not. Bound: one engine.

#include <mesh/engine.h>
#include <mesh/status.h>

#include "plugin/communicator.h"
#include "plugin/stats_writer.h"
#include "plugin/thread_contexts.h"
#include "src/base/snapshot_json.h"
#include "src/verbs/provider.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace mesh::plugin {

// Ends an engine that nobody uses any more. Its links may still say goodbye to their peers, for a
// second at most. That happens on a thread of its own, because NCCL calls finalize under a mutex of
// the process. Thread: the registry's, locked. Bound: one engine at a time.
class EngineEnd {
 public:
  // Returns at once. An engine that waits for no peer has ended by then.
  void begin(std::unique_ptr<verbs::Provider> provider, std::unique_ptr<Engine> engine) noexcept;
  void wait() noexcept;  // returns when the engine has ended
  bool under_way() const noexcept { return thread_.joinable(); }

 private:
  void end() noexcept;

  // Belong to the thread while it runs.
  std::unique_ptr<verbs::Provider> provider_;
  std::unique_ptr<Engine> engine_;
  std::thread thread_;
};

class Registry {
 public:
  static Registry& instance();  // never destroyed: NCCL's threads may outlive static destructors

  Status hold_for_process();                                               // init of v5..v10
  Result<Communicator*> open_communicator(const ContextOptions& options);  // init of v11 and later
  void close_communicator(Communicator* communicator) noexcept;  // finalize; waits for no peer

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
  // The following functions are called with mutex_ held.
  Status make_engine();
  Status open_engine(const Settings& settings);
  void note_start(const Status& made) noexcept;
  void unmake_engine_if_unused() noexcept;
  void unmake_engine() noexcept;
  void leave_engine() noexcept;  // the end of a call that is counted in engine_users_
  void start_stats(const Settings& settings) noexcept;
  void finish_stats() noexcept;
  std::vector<std::unique_ptr<Communicator>>::iterator find(const Communicator* wanted) noexcept;

  mutable std::mutex mutex_;
  std::unique_ptr<verbs::Provider> provider_;
  std::unique_ptr<Engine> owned_;
  std::atomic<Engine*> engine_{nullptr};  // owned_; released in make_engine, acquired in engine()
  std::vector<std::unique_ptr<Communicator>> communicators_;
  bool held_for_process_ = false;
  bool profiler_wanted_ = false;
  Snapshot known_;  // what does not change while the engine lives; also of a start that failed
  // Users of the engine without the mutex: calls that close a thread's contexts or take a snapshot,
  // and hold() without its release().
  int engine_users_ = 0;
  std::uint64_t one_shot_bytes_ = 0;
  int stall_seconds_ = 0;
  std::unique_ptr<StatsWriter> stats_;       // null: no metrics are wanted
  std::unique_ptr<StatsWriter> hung_stats_;  // a writer that hangs in a file system; at most one
  OpenComms comms_;
  ThreadContexts threads_{comms_};
  EngineEnd end_;  // ends the previous engine
};

}  // namespace mesh::plugin

#pragma once
// Waits for a device, on threads of its own: moves queue pairs to ERR, destroys them, deregisters
// memory, and makes calls of others. Most devices need microseconds for each. A device whose
// firmware is sick takes a minute for a command, and soft-RoCE destroys
// a queue pair when the port has sent its last packet, which never happens while the other end of
// the cable takes no packets.
//
// The tasks of one owner, a path, begin in the order in which they came. Its queue pairs are
// stopped side by side, because a fence waits for all of them; one of them is destroyed at a time,
// after all are stopped, so that a path takes no threads from other paths for as long as a peer
// stands still. Memory is deregistered when no queue pair is on its way to ERR. No kind of task
// takes all threads.
//
// An engine without threads calls turn() instead.
//
// Thread: any; `done` is called on the threads of this class, or in turn().
// Bounds: the number of tasks given to reserve(), and kThreadsMax threads.

#include "src/base/thread_pool.h"
#include "src/verbs/handle.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace mesh::engine {

// Returns the error of modify_qp.
int move_to_error(verbs::Provider& provider, ibv_qp* queue_pair) noexcept;

enum class DeviceTask : std::uint8_t { Stop, Destroy, Deregister, Call };

class DeviceWork {
 public:
  static constexpr std::size_t kThreadsMax = 12;
  static constexpr std::size_t kOfAKindMax = 8;  // threads at one time at tasks of one kind
  // `error` is that of modify_qp; a queue pair that is to be destroyed is gone in any case.
  struct Answer {
    DeviceTask task = DeviceTask::Stop;
    std::uint32_t tag = 0;
    int error = 0;
  };
  // Called when a task is done. It may take locks that callers of stop(), destroy(), deregister()
  // and call() hold.
  using Done = std::function<void(const Answer&)>;
  explicit DeviceWork(Done done) : done_(std::move(done)) {}
  ~DeviceWork() { wait_until_done(); }
  DeviceWork(const DeviceWork&) = delete;
  DeviceWork& operator=(const DeviceWork&) = delete;

  // Makes room for that many tasks at a time, so that stop(), destroy(), deregister() and call()
  // allocate nothing. Throws std::bad_alloc.
  void reserve(std::size_t tasks);
  struct Whose {
    const void* owner = nullptr;  // only compared, never dereferenced
    std::uint32_t tag = 0;
  };
  // stop(), destroy(), deregister() and call() return false if no thread could be started, and then
  // always, or if there is no memory for the task: the caller does the work. A queue pair that is
  // being stopped is destroyed only by destroy().
  bool stop(ibv_qp* queue_pair, verbs::Provider& provider, const Whose& whose) noexcept;
  bool destroy(verbs::QpHandle& queue_pair, const Whose& whose) noexcept;
  // `memory` is what the region names. It is taken, with the region, only if true is returned; it
  // lasts until the region is deregistered.
  bool deregister(verbs::MrHandle& region, std::shared_ptr<void>& memory) noexcept;
  struct Call {
    void (*function)(void* self, std::uint32_t argument) noexcept = nullptr;
    void* self = nullptr;
    std::uint32_t argument = 0;
  };
  bool call(const Call& call) noexcept;
  // Before the first task: no thread is started, and each turn() does one task.
  void work_by_hand() noexcept { by_hand_ = true; }
  bool has_work() noexcept;
  bool turn() noexcept;  // returns false if there was no task
  // Returns when all tasks are done and the last done() has returned. No task may be given
  // meanwhile, and the caller must hold no lock that done() takes.
  void wait_until_done() noexcept;

 private:
  struct Task {
    DeviceTask kind = DeviceTask::Stop;
    Whose whose{};
    verbs::Provider* provider = nullptr;
    ibv_qp* stopped = nullptr;
    verbs::QpHandle destroyed{};
    std::shared_ptr<void> memory{};
    verbs::MrHandle deregistered{};
    Call call{};
  };
  struct Worker {
    ThreadPool::Task thread;
    bool running = false;  // it will look at waiting_ once more
    bool busy = false;     // at a task of this kind and owner
    DeviceTask kind = DeviceTask::Stop;
    const void* owner = nullptr;
  };
  bool take(Task& task) noexcept;
  Task take_out(std::size_t at) noexcept;
  void run(Worker& self) noexcept;
  static int perform(Task& task) noexcept;
  bool has_room() noexcept;
  bool may_begin(const Task& task) const noexcept;
  static bool comes_behind(const Task& task, const Task& earlier) noexcept;
  std::size_t next() const noexcept;  // index in waiting_; its size: none may begin
  void start_where_needed() noexcept;
  ThreadPool::Task take_thread() noexcept;  // one that may still run, or none

  const Done done_;
  std::mutex mutex_;
  std::vector<Task> waiting_;  // the oldest first
  std::array<Worker, kThreadsMax> workers_;
  bool by_hand_ = false;
  bool refused_ = false;  // a thread could not be started while none was running
  ThreadPool pool_{"mesh-device"};
};

}  // namespace mesh::engine

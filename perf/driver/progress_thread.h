#pragma once
// The thread that moves data for one communicator, as NCCL's proxy progress thread does. Every task
// gets one turn in a round. The thread yields when nothing moved, sleeps when nothing is open, and
// ends at the first error. Thread: attach, detach and wait_idle from the owner; poke from any
// thread that pushes.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace mesh::driver {

class ProgressThread;

// Work that gets turns. It outlives its attachment.
class Task {
 public:
  virtual ~Task() = default;
  virtual bool turn() = 0;                          // progress thread; true: something moved
  virtual bool active() const noexcept = 0;         // any thread; true: it still has work open
  virtual int error() const noexcept { return 0; }  // any thread; not 0: the thread ends with it

 protected:
  void poke() noexcept;

 private:
  friend class ProgressThread;
  std::atomic<ProgressThread*> thread_{nullptr};
};

class ProgressThread {
 public:
  ProgressThread();
  ~ProgressThread();  // ends the thread, whatever is open
  ProgressThread(const ProgressThread&) = delete;
  ProgressThread& operator=(const ProgressThread&) = delete;

  void attach(Task& task);
  void detach(Task& task);  // returns when the task gets no more turns
  void stop();              // joins the thread; there are no further turns

  // Waits until no task is active. Returns an ncclResult_t, or kDriverTimeout.
  int wait_idle(std::chrono::milliseconds timeout);
  int error() const noexcept { return error_.load(std::memory_order_acquire); }
  void poke() noexcept;

 private:
  void run();
  bool refresh(std::vector<Task*>& tasks);  // false: stop
  bool turn_all(const std::vector<Task*>& tasks);
  void sleep_while_idle(const std::vector<Task*>& tasks);
  bool any_active(const std::vector<Task*>& tasks) const noexcept;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Task*> tasks_;  // under mutex_
  std::uint64_t seen_ = 0;    // under mutex_: the version the thread works with
  bool stop_ = false;         // under mutex_
  bool poked_ = false;        // under mutex_
  // Version of tasks_, also raised to stop; released by the owner, acquired in run().
  std::atomic<std::uint64_t> version_{0};
  std::atomic<bool> sleeping_{false};  // sequentially consistent with the tasks' own "pushed"
  std::atomic<int> error_{0};          // released in turn_all(), acquired in error()
  std::thread thread_;
};

}  // namespace mesh::driver

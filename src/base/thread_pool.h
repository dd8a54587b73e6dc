#pragma once
// Runs each task on a thread of its own. A thread stays for a while after its task, because the
// tasks of a start come in hundreds, take some hundred microseconds each, and a new thread costs
// tens. Thread: any. Bounds: as many threads as tasks at a time, which the callers bound;
// kPoolIdleToEndNs for a thread without a task.

#include <mesh/status.h>

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

namespace mesh {

class ThreadPool {
  struct Job;

 public:
  // A task that was begun, or none. It does not keep the pool, which must outlive it.
  class Task {
   public:
    bool begun() const noexcept { return job_ != nullptr; }
    // Returns when the task has made its last step, and forgets it. Does nothing if there is none.
    void wait() noexcept;

   private:
    friend class ThreadPool;
    ThreadPool* pool_ = nullptr;
    std::shared_ptr<Job> job_;
  };

  explicit ThreadPool(const char* name) : name_(name) {}  // of its threads
  ~ThreadPool();  // waits for all tasks; none may be begun meanwhile
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // Begins `work`, which must not throw. Returns Errc::System if no thread or no memory is to be
  // had: then `work` does not run, and `task` is unchanged.
  template <typename Work>
  Status begin(Task& task, Work&& work) noexcept {
    try {
      return begin_job(task, std::make_shared<Job>(Job{.work = std::forward<Work>(work)}));
    } catch (const std::exception&) {
      return Errc::System;
    }
  }
  // Gives up what is held, on a thread, or on the caller's if no thread or no memory is to be had.
  void let_go(std::shared_ptr<void> held) noexcept;

 private:
  struct Job {
    std::function<void()> work;
    bool over = false;
  };
  using Threads = std::list<std::thread>;
  Status begin_job(Task& task, std::shared_ptr<Job> job);
  Status start_thread();
  void serve(Threads::iterator self) noexcept;
  void join_gone() noexcept;

  const char* const name_;
  std::mutex mutex_;  // protects all below
  std::condition_variable news_, ends_;
  std::deque<std::shared_ptr<Job>> waiting_;
  std::size_t free_ = 0;  // threads that are at no job; as many as wait, or more
  Threads threads_, gone_;
  bool closing_ = false;
};

}  // namespace mesh

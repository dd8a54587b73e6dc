#include "src/base/thread_pool.h"

#include "src/base/check.h"
#include "src/base/own_thread.h"
#include "src/base/timeouts.h"

#include <chrono>
#include <iterator>
#include <utility>

namespace mesh {

ThreadPool::~ThreadPool() {
  std::unique_lock lock(mutex_);
  closing_ = true;
  news_.notify_all();
  ends_.wait(lock, [this] { return threads_.empty(); });
  join_gone();
}

Status ThreadPool::begin_job(Task& task, std::shared_ptr<Job> job) {
  DCHECK(!task.begun());
  {
    const std::lock_guard lock(mutex_);
    join_gone();
    if (waiting_.size() == free_) {
      if (const Status started = start_thread(); !started.ok()) return started;
    }
    waiting_.push_back(job);
  }
  news_.notify_one();  // without the mutex, which the thread takes first
  task.pool_ = this;
  task.job_ = std::move(job);
  return {};
}

void ThreadPool::let_go(std::shared_ptr<void> held) noexcept {
  Task forgotten;
  static_cast<void>(begin(forgotten, [last = std::move(held)] {}));
}

Status ThreadPool::start_thread() {
  threads_.emplace_back();
  const auto self = std::prev(threads_.end());
  const Status started = start_own_thread(*self, name_, [this, self] { serve(self); });
  if (started.ok()) {
    ++free_;
  } else {
    threads_.erase(self);
  }
  return started;
}

void ThreadPool::serve(Threads::iterator self) noexcept {
  std::unique_lock lock(mutex_);
  for (;;) {
    news_.wait_for(lock, std::chrono::nanoseconds(kPoolIdleToEndNs),
                   [this] { return closing_ || !waiting_.empty(); });
    --free_;
    if (waiting_.empty()) break;
    const std::shared_ptr<Job> job = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    job->work();
    job->work = nullptr;
    lock.lock();
    job->over = true;
    ++free_;
    ends_.notify_all();
  }
  gone_.splice(gone_.end(), threads_, self);
  ends_.notify_all();
}

// Joins the threads that have nothing left to do but to return.
void ThreadPool::join_gone() noexcept {
  for (std::thread& thread : gone_) thread.join();
  gone_.clear();
}

void ThreadPool::Task::wait() noexcept {
  if (!begun()) return;
  std::unique_lock lock(pool_->mutex_);
  pool_->ends_.wait(lock, [this] { return job_->over; });
  job_.reset();
}

}  // namespace mesh

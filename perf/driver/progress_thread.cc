#include "perf/driver/progress_thread.h"

#include "perf/driver/net_api.h"

#include <algorithm>

namespace mesh::driver {

void Task::poke() noexcept {
  if (ProgressThread* thread = thread_.load(std::memory_order_acquire)) thread->poke();
}

ProgressThread::ProgressThread() : thread_([this] { run(); }) {}

ProgressThread::~ProgressThread() { stop(); }

void ProgressThread::attach(Task& task) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    tasks_.push_back(&task);
    task.thread_.store(this, std::memory_order_release);
    version_.fetch_add(1, std::memory_order_seq_cst);
  }
  changed_.notify_all();
}

void ProgressThread::detach(Task& task) {
  std::unique_lock<std::mutex> lock(mutex_);
  task.thread_.store(nullptr, std::memory_order_release);
  std::erase(tasks_, &task);
  const std::uint64_t wanted = version_.fetch_add(1, std::memory_order_seq_cst) + 1;
  changed_.notify_all();
  changed_.wait(lock, [&] { return seen_ >= wanted || stop_; });
}

void ProgressThread::stop() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
    version_.fetch_add(1, std::memory_order_seq_cst);
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

int ProgressThread::wait_idle(std::chrono::milliseconds timeout) {
  std::unique_lock<std::mutex> lock(mutex_);
  const bool idle = changed_.wait_for(lock, timeout,
                                      [&] { return error() != 0 || stop_ || !any_active(tasks_); });
  if (error() != 0) return error();
  return idle ? kNetSuccess : kDriverTimeout;
}

void ProgressThread::poke() noexcept {
  if (!sleeping_.load(std::memory_order_seq_cst)) return;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    poked_ = true;
  }
  changed_.notify_all();
}

bool ProgressThread::any_active(const std::vector<Task*>& tasks) const noexcept {
  return std::any_of(tasks.begin(), tasks.end(), [](const Task* task) { return task->active(); });
}

bool ProgressThread::refresh(std::vector<Task*>& tasks) {
  const std::lock_guard<std::mutex> lock(mutex_);
  tasks = tasks_;
  seen_ = version_.load(std::memory_order_relaxed);
  if (error() != 0) tasks.clear();
  changed_.notify_all();
  return !stop_;
}

bool ProgressThread::turn_all(const std::vector<Task*>& tasks) {
  bool moved = false;
  for (Task* task : tasks) {
    moved |= task->turn();
    if (task->error() == 0) continue;
    // One failing call ends the work of the whole thread, as in NCCL.
    const std::lock_guard<std::mutex> lock(mutex_);
    error_.store(task->error(), std::memory_order_release);
    version_.fetch_add(1, std::memory_order_seq_cst);
    return true;
  }
  return moved;
}

void ProgressThread::sleep_while_idle(const std::vector<Task*>& tasks) {
  std::unique_lock<std::mutex> lock(mutex_);
  sleeping_.store(true, std::memory_order_seq_cst);
  // A push after this line sees the flag; a push before it is seen by any_active().
  if (!any_active(tasks)) {
    changed_.notify_all();
    changed_.wait(lock,
                  [&] { return poked_ || seen_ != version_.load(std::memory_order_relaxed); });
  }
  poked_ = false;
  sleeping_.store(false, std::memory_order_seq_cst);
}

void ProgressThread::run() {
  std::vector<Task*> tasks;
  for (;;) {
    if (version_.load(std::memory_order_acquire) != seen_ && !refresh(tasks)) return;
    const bool moved = turn_all(tasks);
    if (!any_active(tasks)) {
      sleep_while_idle(tasks);
    } else if (!moved) {
      std::this_thread::yield();
    }
  }
}

}  // namespace mesh::driver

#include "engine/data/device_work.h"

#include "src/base/held_locks.h"
#include "src/base/room.h"

#include <algorithm>
#include <new>
#include <utility>

namespace mesh::engine {

int move_to_error(verbs::Provider& provider, ibv_qp* queue_pair) noexcept {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_ERR;
  return provider.modify_qp(queue_pair, &attr, IBV_QP_STATE);
}

void DeviceWork::reserve(std::size_t tasks) {
  const std::lock_guard guard(mutex_);
  make_room_for(waiting_, tasks);
}

bool DeviceWork::may_begin(const Task& task) const noexcept {
  const auto stops = [](const Worker& each) { return each.busy && each.kind == DeviceTask::Stop; };
  const auto is_of_kind = [&task](const Worker& each) {
    return each.busy && each.kind == task.kind;
  };
  const auto is_of_owner = [&task](const Worker& each) {
    return each.busy && each.owner == task.whose.owner;
  };
  if (std::count_if(workers_.begin(), workers_.end(), is_of_kind) ==
      static_cast<std::ptrdiff_t>(kOfAKindMax))
    return false;
  if (task.kind == DeviceTask::Stop) return true;
  if (task.kind == DeviceTask::Deregister)
    return std::none_of(workers_.begin(), workers_.end(), stops);
  return std::none_of(workers_.begin(), workers_.end(), is_of_owner);
}

// All queue pairs of a path are stopped before the first is destroyed, and whatever is on its way
// to ERR is there before memory goes.
bool DeviceWork::comes_behind(const Task& task, const Task& earlier) noexcept {
  if (earlier.kind != DeviceTask::Stop || task.kind == DeviceTask::Stop) return false;
  return task.kind == DeviceTask::Deregister || task.whose.owner == earlier.whose.owner;
}

std::size_t DeviceWork::next() const noexcept {
  for (std::size_t i = 0; i < waiting_.size(); ++i) {
    if (!may_begin(waiting_[i])) continue;
    const auto first = waiting_.begin(), at = first + static_cast<std::ptrdiff_t>(i);
    if (std::none_of(first, at, [&](const Task& each) { return comes_behind(*at, each); }))
      return i;
  }
  return waiting_.size();
}

// Starts a thread for a task that may begin and that no thread is about to look for. If none can be
// started, those that run do the work.
void DeviceWork::start_where_needed() noexcept {
  const auto looks = [](const Worker& worker) { return worker.running && !worker.busy; };
  if (next() == waiting_.size() || std::any_of(workers_.begin(), workers_.end(), looks)) return;
  const auto free = std::find_if(workers_.begin(), workers_.end(),
                                 [](const Worker& worker) { return !worker.running; });
  if (free == workers_.end()) return;
  Worker& worker = *free;
  worker.thread.wait();  // it has nothing left to do but to return
  worker.busy = false;
  worker.running = pool_.begin(worker.thread, [this, &worker] { run(worker); }).ok();
}

// Only tasks that reserve() did not count may find none.
bool DeviceWork::has_room() noexcept try {
  make_room_for(waiting_, waiting_.size() + 1);
  return true;
} catch (const std::bad_alloc&) {
  return false;
}

bool DeviceWork::take(Task& task) noexcept {
  const std::lock_guard guard(mutex_);
  if (refused_ || !has_room()) return false;
  waiting_.push_back(std::move(task));
  if (by_hand_) return true;
  start_where_needed();
  const auto runs = [](const Worker& worker) { return worker.running; };
  if (std::any_of(workers_.begin(), workers_.end(), runs)) return true;
  task = std::move(waiting_.back());
  waiting_.pop_back();
  refused_ = true;
  return false;
}

bool DeviceWork::stop(ibv_qp* queue_pair, verbs::Provider& provider, const Whose& whose) noexcept {
  Task task{.kind = DeviceTask::Stop, .whose = whose, .provider = &provider, .stopped = queue_pair};
  return take(task);
}

bool DeviceWork::destroy(verbs::QpHandle& queue_pair, const Whose& whose) noexcept {
  Task task{.kind = DeviceTask::Destroy, .whose = whose, .destroyed = std::move(queue_pair)};
  const bool taken = take(task);
  if (!taken) queue_pair = std::move(task.destroyed);
  return taken;
}

bool DeviceWork::deregister(verbs::MrHandle& region, std::shared_ptr<void>& memory) noexcept {
  const void* const owner = region.get();
  Task task{.kind = DeviceTask::Deregister,
            .whose = {.owner = owner},
            .memory = std::move(memory),
            .deregistered = std::move(region)};
  const bool taken = take(task);
  if (!taken) {
    region = std::move(task.deregistered);
    memory = std::move(task.memory);
  }
  return taken;
}

bool DeviceWork::call(const Call& call) noexcept {
  Task task{.kind = DeviceTask::Call, .whose = {.owner = call.self}, .call = call};
  return take(task);
}

int DeviceWork::perform(Task& task) noexcept {
  switch (task.kind) {
    case DeviceTask::Stop: return move_to_error(*task.provider, task.stopped);
    case DeviceTask::Destroy: task.destroyed.reset(); break;
    case DeviceTask::Deregister: task.deregistered.reset(); break;
    case DeviceTask::Call: task.call.function(task.call.self, task.call.argument); break;
  }
  return 0;
}

void DeviceWork::run(Worker& self) noexcept {
  for (;;) {
    Task task;
    {
      const std::lock_guard guard(mutex_);
      self.busy = false;
      const std::size_t at = next();
      if (at == waiting_.size()) {
        self.running = false;
        return;
      }
      task = take_out(at);
      self.busy = true;
      self.kind = task.kind;
      self.owner = task.whose.owner;
      start_where_needed();
    }
    const int error = perform(task);
    done_({.task = task.kind, .tag = task.whose.tag, .error = error});
  }
}

bool DeviceWork::has_work() noexcept {
  const std::lock_guard guard(mutex_);
  return !waiting_.empty();
}

bool DeviceWork::turn() noexcept {
  Task task;
  {
    const std::lock_guard guard(mutex_);
    if (waiting_.empty()) return false;
    task = take_out(next());
  }
  const WaitsUnderLocks no_threads;
  const int error = perform(task);
  done_({.task = task.kind, .tag = task.whose.tag, .error = error});
  return true;
}

DeviceWork::Task DeviceWork::take_out(std::size_t at) noexcept {
  Task task = std::move(waiting_[at]);
  waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(at));
  return task;
}

ThreadPool::Task DeviceWork::take_thread() noexcept {
  const std::lock_guard guard(mutex_);
  for (Worker& worker : workers_) {
    if (worker.thread.begun()) return std::exchange(worker.thread, {});
  }
  return {};
}

// A thread may start another one before it ends, so all are looked at again after each join.
void DeviceWork::wait_until_done() noexcept {
  while (by_hand_ && turn()) continue;
  for (;;) {
    ThreadPool::Task thread = take_thread();
    if (!thread.begun()) return;
    thread.wait();
  }
}

}  // namespace mesh::engine

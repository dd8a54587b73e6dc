#include "engine/data/disposal.h"

#include "src/base/own_thread.h"
#include "src/base/room.h"

#include <algorithm>
#include <utility>

namespace mesh::engine {

void Disposal::reserve(std::size_t queue_pairs) {
  const std::lock_guard guard(mutex_);
  make_room_for(waiting_, queue_pairs);
}

bool Disposal::is_served(const void* owner) const noexcept {
  return std::any_of(workers_.begin(), workers_.end(), [owner](const Worker& worker) {
    return worker.running && worker.owner == owner;
  });
}

std::size_t Disposal::next_for(const void* owner) const noexcept {
  std::size_t other = waiting_.size();
  for (std::size_t i = waiting_.size(); i-- > 0;) {
    if (waiting_[i].whose.owner == owner) return i;
    if (other == waiting_.size() && !is_served(waiting_[i].whose.owner)) other = i;
  }
  return other;
}

// Starts a thread for an owner without one. If none can be started, those that run do the work.
void Disposal::start_where_needed() noexcept {
  const std::size_t next = next_for(nullptr);
  if (next == waiting_.size()) return;
  const auto free = std::find_if(workers_.begin(), workers_.end(),
                                 [](const Worker& worker) { return !worker.running; });
  if (free == workers_.end()) return;
  Worker& worker = *free;
  if (worker.thread.joinable()) worker.thread.join();  // it has nothing left to do but to return
  worker.owner = waiting_[next].whose.owner;
  worker.running =
      start_own_thread(worker.thread, "mesh-disposal", [this, &worker] { run(worker); }).ok();
}

bool Disposal::take(verbs::QpHandle& queue_pair, const Whose& whose) noexcept {
  const std::lock_guard guard(mutex_);
  if (refused_) return false;
  waiting_.push_back({.queue_pair = std::move(queue_pair), .whose = whose});
  start_where_needed();
  const auto runs = [](const Worker& worker) { return worker.running; };
  if (std::any_of(workers_.begin(), workers_.end(), runs)) return true;
  queue_pair = std::move(waiting_.back().queue_pair);
  waiting_.pop_back();
  refused_ = true;
  return false;
}

void Disposal::run(Worker& self) noexcept {
  for (;;) {
    Item next;
    {
      const std::lock_guard guard(mutex_);
      const std::size_t at = next_for(self.owner);
      if (at == waiting_.size()) {
        self.running = false;
        return;
      }
      next = std::move(waiting_[at]);
      if (at + 1 != waiting_.size()) waiting_[at] = std::move(waiting_.back());
      waiting_.pop_back();
      self.owner = next.whose.owner;
      start_where_needed();
    }
    next.queue_pair.reset();
    gone_(next.whose.tag);
  }
}

std::thread Disposal::take_thread() noexcept {
  const std::lock_guard guard(mutex_);
  for (Worker& worker : workers_) {
    if (worker.thread.joinable()) return std::move(worker.thread);
  }
  return {};
}

// A thread may start another one before it ends, so all are looked at again after each join.
void Disposal::wait_until_destroyed() noexcept {
  for (;;) {
    std::thread thread = take_thread();
    if (!thread.joinable()) return;
    thread.join();
  }
}

}  // namespace mesh::engine

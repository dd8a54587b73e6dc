#include "engine/data/disposal.h"

#include "src/base/own_thread.h"
#include "src/base/room.h"

#include <utility>

namespace mesh::engine {

void Disposal::reserve(std::size_t queue_pairs) {
  const std::lock_guard guard(mutex_);
  make_room_for(waiting_, queue_pairs);
}

bool Disposal::take(verbs::QpHandle& queue_pair, std::uint32_t tag) noexcept {
  const std::lock_guard guard(mutex_);
  if (refused_) return false;
  if (!running_) {
    if (thread_.joinable()) thread_.join();  // it has nothing left to do but to return
    running_ = start_own_thread(thread_, "mesh-disposal", [this] { run(); }).ok();
    refused_ = !running_;
    if (refused_) return false;
  }
  waiting_.push_back({.queue_pair = std::move(queue_pair), .tag = tag});
  return true;
}

void Disposal::run() noexcept {
  for (;;) {
    Item next;
    {
      const std::lock_guard guard(mutex_);
      if (waiting_.empty()) {
        running_ = false;
        return;
      }
      next = std::move(waiting_.back());
      waiting_.pop_back();
    }
    next.queue_pair.reset();
    gone_(next.tag);
  }
}

void Disposal::wait_until_destroyed() noexcept {
  if (thread_.joinable()) thread_.join();
}

}  // namespace mesh::engine

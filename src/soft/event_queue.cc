#include "src/soft/event_queue.h"

#include "src/base/fork_guard.h"

#include <sys/eventfd.h>

#include <algorithm>

namespace mesh::soft {

EventQueue::EventQueue() : fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (fd_.valid()) fork_close_fd(fd_.get());
}

void EventQueue::push(const verbs::DeviceEvent& event) noexcept {
  const std::lock_guard lock(mutex_);
  if (events_.size() >= kEventsMax) return;
  events_.push_back(event);
  if (events_.size() == 1) ::eventfd_write(fd_.get(), 1);
}

bool EventQueue::pop(verbs::DeviceEvent* event) noexcept {
  const std::lock_guard lock(mutex_);
  if (events_.empty()) return false;
  *event = events_.front();
  events_.pop_front();
  drain_locked();
  return true;
}

void EventQueue::forget_qp(std::uint32_t qp_num) noexcept {
  const std::lock_guard lock(mutex_);
  if (events_.empty()) return;
  std::erase_if(events_, [qp_num](const verbs::DeviceEvent& event) {
    return event.kind == verbs::DeviceEventKind::QpFatal && event.qp_num == qp_num;
  });
  drain_locked();
}

void EventQueue::drain_locked() noexcept {
  if (!events_.empty()) return;
  eventfd_t count = 0;
  ::eventfd_read(fd_.get(), &count);
}

}  // namespace mesh::soft

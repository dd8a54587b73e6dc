#include "src/soft/completion_queue.h"

#include "src/base/check.h"
#include "src/base/fork_guard.h"
#include "src/base/log.h"
#include "src/soft/queue_pair.h"

#include <sys/eventfd.h>

#include <algorithm>
#include <bit>
#include <mutex>

namespace mesh::soft {

CompletionQueue::CompletionQueue(ibv_context* context, Nic* owner, int entries)
    : nic(owner),
      entries_(std::bit_ceil(static_cast<std::size_t>(entries))),
      mask_(entries_.size() - 1),
      limit_(static_cast<std::uint64_t>(entries)) {
  verbs.context = context;
  verbs.cqe = entries;
}

void CompletionQueue::push(const CompletionEntry& entry) noexcept {
  DCHECK(entry.qp != nullptr && (!entry.is_receive || entry.end == 0));
  const std::uint64_t in = in_.load(std::memory_order_relaxed);
  DCHECK(in - out_.load(std::memory_order_acquire) <= limit_);
  if (in - out_.load(std::memory_order_acquire) >= limit_) {
    if (!dead_.exchange(true, std::memory_order_release))
      LOG_WARN(
          "soft fabric: a completion queue of {} entries has overflowed and is dead; queue pair {}",
          limit_, entry.wc.qp_num);
    return;
  }
  entries_[in & mask_] = Slot(entry);
  in_.store(in + 1, std::memory_order_release);
}

CompletionQueue::Slot::Slot(const CompletionEntry& entry) noexcept
    : qp(entry.qp),
      end(entry.end),
      wr_id(entry.wc.wr_id),
      byte_len(entry.wc.byte_len),
      imm(entry.wc.imm_data),
      qp_num(entry.wc.qp_num),
      src_qp(entry.wc.src_qp),
      status(static_cast<std::uint8_t>(entry.wc.status)),
      opcode(static_cast<std::uint8_t>(entry.wc.opcode)),
      flags(static_cast<std::uint8_t>(entry.wc.wc_flags)),
      is_receive(entry.is_receive) {}

ibv_wc CompletionQueue::Slot::wc() const noexcept {
  ibv_wc wc{};
  wc.wr_id = wr_id;
  wc.status = static_cast<ibv_wc_status>(status);
  wc.opcode = static_cast<ibv_wc_opcode>(opcode);
  wc.byte_len = byte_len;
  wc.imm_data = imm;
  wc.qp_num = qp_num;
  wc.src_qp = src_qp;
  wc.wc_flags = flags;
  return wc;
}

int CompletionQueue::pop(int count, ibv_wc* wc) noexcept {
  if (in_.load(std::memory_order_relaxed) == out_.load(std::memory_order_relaxed) &&
      !dead_.load(std::memory_order_relaxed))
    return 0;
  if (!pop_lock_.try_lock()) return 0;
  std::lock_guard lock(pop_lock_, std::adopt_lock);
  if (dead_.load(std::memory_order_acquire)) return -1;
  const std::uint64_t in = in_.load(std::memory_order_acquire);
  std::uint64_t out = out_.load(std::memory_order_relaxed);
  DCHECK(pop_lock_.held_here() && in - out <= limit_);
  int found = 0;
  for (; found < count && out != in; ++out) {
    const Slot& entry = entries_[out & mask_];
    if (entry.qp == nullptr) continue;
    wc[found++] = entry.wc();
    if (entry.is_receive) {
      entry.qp->receives.freed.fetch_add(1, std::memory_order_release);
    } else {
      DCHECK(entry.end >= entry.qp->sends.freed.load(std::memory_order_relaxed));
      entry.qp->sends.freed.store(entry.end, std::memory_order_release);
    }
  }
  out_.store(out, std::memory_order_release);
  return found;
}

void CompletionQueue::forget(const QueuePair* qp) noexcept {
  std::lock_guard lock(pop_lock_);
  const std::uint64_t in = in_.load(std::memory_order_acquire);
  for (std::uint64_t at = out_.load(std::memory_order_acquire); at != in; ++at)
    if (entries_[at & mask_].qp == qp) entries_[at & mask_].qp = nullptr;
}

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

#include "src/soft/completion_queue.h"

#include "src/base/check.h"
#include "src/base/fork_guard.h"
#include "src/base/log.h"
#include "src/soft/queue_pair.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <mutex>

namespace mesh::soft {

CompletionChannel::CompletionChannel(ibv_context* context, int waiters_fd)
    : reported_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
  verbs.context = context;
  epoll_event reported{.events = EPOLLIN, .data = {}},
      rung{.events = EPOLLIN | EPOLLET, .data = {}};
  const bool made = reported_.valid() && epoll_.valid() &&
                    ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, reported_.get(), &reported) == 0 &&
                    ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, waiters_fd, &rung) == 0;
  verbs.fd = made ? epoll_.get() : -1;
  if (!made) return;
  fork_close_fd(reported_.get());
  fork_close_fd(epoll_.get());
}

void CompletionChannel::push() noexcept { ::eventfd_write(reported_.get(), 1); }

bool CompletionChannel::pop() noexcept {
  std::array<epoll_event, 2> events{};
  const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
  eventfd_t reports = 0;
  ::eventfd_read(reported_.get(), &reports);
  return count > 0;
}

CompletionQueue::CompletionQueue(ibv_context* context, Nic* owner, int entries,
                                 CompletionChannel* channel)
    : nic(owner),
      channel_(channel),
      queue_pairs_(channel == nullptr ? nullptr : std::make_unique<Marks>()),
      entries_(std::bit_ceil(static_cast<std::size_t>(entries))),
      mask_(entries_.size() - 1),
      limit_(static_cast<std::uint64_t>(entries)) {
  verbs.context = context;
  verbs.cqe = entries;
  if (channel == nullptr) return;
  verbs.channel = &channel->verbs;
  channel->users.fetch_add(1, std::memory_order_relaxed);
}

CompletionQueue::~CompletionQueue() {
  if (channel_ != nullptr) channel_->users.fetch_sub(1, std::memory_order_relaxed);
}

void CompletionQueue::note_user(std::uint32_t index) noexcept {
  if (queue_pairs_ != nullptr) queue_pairs_->set(index);
}

// The loads pair with publish() and with the ringers of the board: the poll that follows sees the
// entry or the bell, or the other side sees that the queue is armed.
void CompletionQueue::arm(NicBoard& bells) noexcept {
  DCHECK(can_report());
  armed_.store(true, std::memory_order_seq_cst);
  bells.awaited.set_all(*queue_pairs_);
  static_cast<void>(in_.load(std::memory_order_seq_cst));
  static_cast<void>(bells.requests.any());
  static_cast<void>(bells.responses.any());
}

void CompletionQueue::publish(std::uint64_t in) noexcept {
  if (!can_report()) return in_.store(in, std::memory_order_release);
  in_.store(in, std::memory_order_seq_cst);
  report();
}

void CompletionQueue::report() noexcept {
  if (!can_report() || !armed_.load(std::memory_order_seq_cst)) return;
  if (armed_.exchange(false, std::memory_order_seq_cst)) channel_->push();
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
    return report();
  }
  entries_[in & mask_] = Slot(entry);
  publish(in + 1);
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

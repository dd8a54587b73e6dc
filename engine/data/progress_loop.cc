#include "engine/data/progress_loop.h"

#include "engine/data/progress_loop_datapath.h"

#include <sched.h>
#include <algorithm>
#include <bit>

namespace mesh::engine {

namespace {
// Full batches per completion queue and turn, besides the first of the only one; more would make
// submissions wait.
constexpr int kPollRounds = 4;
constexpr std::uint32_t kVisitsPerTurn = 64;  // channels; the others come first in the next turn
constexpr int kMailRounds = 4;  // after a release; whoever leaves mail tries the token himself too
}  // namespace

bool ProgressLoop::try_turn() noexcept {
  if (!try_acquire()) return false;
  const std::uint64_t before = events_;
  poll_once(nullptr);
  const bool worked = events_ != before;
  release();
  after_release();
  return worked;
}

// One of several queues, or the rest of one that gave a full batch.
void ProgressLoop::poll_on(const Source& source) noexcept {
  std::uint32_t taken = kPollBatch;
  for (int round = 0; round < kPollRounds && taken == kPollBatch; ++round) {
    taken = source.lane->poll(source.queue);
    events_ += taken;
  }
}

void ProgressLoop::work(Channel* first) noexcept {
  // Credits are looked at and messages posted channel by channel, the one NCCL is asking about
  // first. One that waits for something keeps its place among the others: who is asked about most
  // would take whatever a full path gives free.
  if (first != nullptr && !first->active) visit(*first);
  visit_active();
  // Windows after the data: what was received in this turn goes back with one row.
  return_windows();
  ring_staged();
  has_work_ = active_first_ != nullptr || !window_due_.empty();
}

void ProgressLoop::answer_mail() noexcept {
  for (int round = 0; round < kMailRounds; ++round) {
    if (mailbox_.load(std::memory_order_seq_cst) == 0 || !try_acquire()) return;
    take_mail();
    visit_active();
    ring_staged();
    release();
  }
}

ProgressLoop::Guard::Guard(ProgressLoop& loop) noexcept : loop_(loop) {
  loop_.token_.fetch_add(kGuard, std::memory_order_seq_cst);
  while ((loop_.token_.fetch_or(kHeld, std::memory_order_seq_cst) & kHeld) != 0) ::sched_yield();
  loop_.token_.fetch_sub(kGuard, std::memory_order_seq_cst);
}

ProgressLoop::Guard::~Guard() {
  loop_.ring_staged();
  loop_.release();
  loop_.after_release();
}

void ProgressLoop::drain_completions() noexcept {
  for (const auto& lane : lanes) lane->drain();
}

void ProgressLoop::attach(Channel& channel) {
  channel.mail_bit = next_mail_bit_++ % kMailBits;
  channels_[channel.mail_bit].push_back(&channel);
}

void ProgressLoop::forget(Channel& channel) noexcept {
  std::erase(channels_[channel.mail_bit], &channel);
  if (!channel.active) return;
  Channel** link = &active_first_;
  Channel* before = nullptr;
  while (*link != &channel) {
    before = *link;
    link = &(*link)->next_active;
  }
  *link = channel.next_active;
  if (active_last_ == &channel) active_last_ = before;
  --active_count_;
  channel.active = false;
}

void ProgressLoop::forget(QueuePair& queue_pair) noexcept {
  std::erase(window_due_, &queue_pair);
  queue_pair.window_due = false;
  std::erase_if(refused_,
                [&queue_pair](const Refused& each) { return each.queue_pair == &queue_pair; });
  unstage(queue_pair);
}

void ProgressLoop::unstage(QueuePair& queue_pair) noexcept {
  if (!queue_pair.in_staged_list) return;
  QueuePair** link = &staged_;
  while (*link != &queue_pair) link = &(*link)->next_staged;
  *link = queue_pair.next_staged;
  queue_pair.in_staged_list = false;
}

void ProgressLoop::activate(Channel& channel) noexcept {
  if (channel.active) return;
  has_work_ = true;
  channel.active = true;
  channel.next_active = nullptr;
  (active_last_ == nullptr ? active_first_ : active_last_->next_active) = &channel;
  active_last_ = &channel;
  ++active_count_;
}

void ProgressLoop::take_mail() noexcept {
  std::uint64_t bits = mailbox_.exchange(0, std::memory_order_seq_cst);
  while (bits != 0) {
    for (Channel* channel : channels_[static_cast<std::size_t>(std::countr_zero(bits))]) {
      if (channel->has_new()) activate(*channel);
    }
    bits &= bits - 1;
  }
}

namespace {
bool advance(Channel& channel, bool in_turn) noexcept {
  if (channel.side == Side::Send) return SendChannel::of(channel).advance(in_turn);
  return RecvChannel::of(channel).advance();
}
}  // namespace

void ProgressLoop::visit_active() noexcept {
  const std::uint32_t visits = std::min(active_count_, kVisitsPerTurn);
  // Who has posted goes behind those who could not: else the first in the list takes whatever a
  // full path gives free.
  Channel* served_first = nullptr;
  Channel** served_end = &served_first;
  for (std::uint32_t i = 0; i < visits; ++i) {
    Channel& channel = *active_first_;
    active_first_ = channel.next_active;
    if (active_first_ == nullptr) active_last_ = nullptr;
    --active_count_;
    channel.active = false;
    const std::uint32_t outstanding = channel.outstanding;
    if (!advance(channel, true)) continue;
    if (channel.outstanding == outstanding) {
      activate(channel);
      continue;
    }
    channel.next_active = nullptr;
    *served_end = &channel;
    served_end = &channel.next_active;
  }
  while (served_first != nullptr) {
    Channel& channel = *served_first;
    served_first = channel.next_active;
    activate(channel);
  }
}

void ProgressLoop::fail_refused() noexcept {
  refusing_.swap(refused_);  // both keep their room
  has_refused_ = false;
  for (const Refused& each : refusing_)
    each.queue_pair->link().on_post_failed(*each.queue_pair, each.error);
  refusing_.clear();
}

void ProgressLoop::add_window_due(QueuePair& queue_pair) noexcept {
  if (queue_pair.window_due) return;
  queue_pair.window_due = true;
  window_due_.push_back(&queue_pair);
  has_work_ = true;
}

void ProgressLoop::return_windows() noexcept {
  if (window_due_.empty()) return;
  window_later_.clear();
  for (QueuePair* queue_pair : window_due_) {
    if (!queue_pair->return_window()) window_later_.push_back(queue_pair);
  }
  window_due_.swap(window_later_);
}

}  // namespace mesh::engine

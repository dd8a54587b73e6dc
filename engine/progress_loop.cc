#include "engine/progress_loop.h"

#include "engine/peer_link.h"
#include "engine/recv_channel.h"
#include "engine/send_channel.h"

#include <sched.h>
#include <algorithm>
#include <bit>

namespace mesh::engine {

namespace {
constexpr std::uint32_t kCompletionsPerTurn = 64;  // per completion queue; more would make submissions wait
constexpr std::uint32_t kVisitsPerTurn = 64;       // channels; the others come first in the next turn
constexpr int kMailRounds = 4;                     // after a release; whoever leaves mail tries the token himself too
}  // namespace

bool ProgressLoop::try_acquire() noexcept {
  if (guards_waiting_.load(std::memory_order_seq_cst) != 0) return false;
  if (token_.load(std::memory_order_seq_cst)) return false;
  // seq_cst: see release(); of "mail left" and "token released" at least one side sees the other's.
  return !token_.exchange(true, std::memory_order_seq_cst);
}

void ProgressLoop::release() noexcept { token_.store(false, std::memory_order_seq_cst); }

void ProgressLoop::after_release() noexcept {
  for (int round = 0; round < kMailRounds; ++round) {
    if (mailbox_.load(std::memory_order_seq_cst) == 0 || !try_acquire()) return;
    take_mail();
    visit_active();
    ring_staged();
    release();
  }
}

void ProgressLoop::submit(Channel& channel) noexcept {
  if (try_acquire()) {
    visit(channel);
    ring_staged();
    release();
  } else {
    mailbox_.fetch_or(std::uint64_t{1} << channel.mail_bit, std::memory_order_seq_cst);
  }
  after_release();
}

bool ProgressLoop::try_turn(Channel* first) noexcept {
  if (!try_acquire()) return false;
  const bool worked = poll_once(first);
  release();
  after_release();
  return worked;
}

ProgressLoop::Guard::Guard(ProgressLoop& loop) noexcept : loop_(loop) {
  loop_.guards_waiting_.fetch_add(1, std::memory_order_seq_cst);
  while (loop_.token_.exchange(true, std::memory_order_seq_cst)) ::sched_yield();
  loop_.guards_waiting_.fetch_sub(1, std::memory_order_seq_cst);
}

ProgressLoop::Guard::~Guard() {
  loop_.ring_staged();
  loop_.release();
  loop_.after_release();
}

bool ProgressLoop::poll_once(Channel* first) noexcept {
  counters.turns.add(1);
  std::uint32_t done = 0;
  // Completions first: they make room in queues and windows for all that follows.
  for (const auto& lane : lanes) done += lane->poll(kCompletionsPerTurn);
  // Then what NCCL handed in, so that it can be posted in this very turn.
  take_mail();
  // Credits are looked at and messages posted channel by channel, the one NCCL is asking about first. One that waits for
  // something keeps its place among the others: who is asked about most would take whatever a full path gives free.
  if (first != nullptr && !first->active) visit(*first);
  const bool visited = visit_active();
  // Windows after the data: what was received in this turn goes back with one row.
  return_windows();
  const bool rang = staged_ != nullptr;
  ring_staged();
  const bool worked = done != 0 || rang;
  if (!worked && !visited) counters.empty_turns.add(1);
  return worked;
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
  std::erase_if(refused_, [&queue_pair](const Refused& each) { return each.queue_pair == &queue_pair; });
  if (!queue_pair.in_staged_list) return;
  QueuePair** link = &staged_;
  while (*link != &queue_pair) link = &(*link)->next_staged;
  *link = queue_pair.next_staged;
  queue_pair.in_staged_list = false;
}

void ProgressLoop::activate(Channel& channel) noexcept {
  if (channel.active) return;
  channel.active = true;
  channel.next_active = nullptr;
  (active_last_ == nullptr ? active_first_ : active_last_->next_active) = &channel;
  active_last_ = &channel;
  ++active_count_;
}

void ProgressLoop::take_mail() noexcept {
  if (mailbox_.load(std::memory_order_relaxed) == 0) return;
  std::uint64_t bits = mailbox_.exchange(0, std::memory_order_seq_cst);
  while (bits != 0) {
    for (Channel* channel : channels_[static_cast<std::size_t>(std::countr_zero(bits))]) {
      if (channel->submitted.load(std::memory_order_acquire) != channel->accepted) activate(*channel);
    }
    bits &= bits - 1;
  }
}

namespace {
bool advance(Channel& channel, bool in_turn) noexcept {
  if (channel.side == Side::Send) return static_cast<SendChannel&>(channel).advance(in_turn);
  return static_cast<RecvChannel&>(channel).advance();
}
}  // namespace

void ProgressLoop::visit(Channel& channel) noexcept {
  if (advance(channel, false)) activate(channel);
}

bool ProgressLoop::visit_active() noexcept {
  const std::uint32_t visits = std::min(active_count_, kVisitsPerTurn);
  // Who has posted goes behind those who could not: else the first in the list takes whatever a full path gives free.
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
  return visits != 0;
}

void ProgressLoop::add_staged(QueuePair& queue_pair) noexcept {
  queue_pair.in_staged_list = true;
  queue_pair.next_staged = staged_;
  staged_ = &queue_pair;
}

void ProgressLoop::ring_staged() noexcept {
  while (staged_ != nullptr) {
    QueuePair& queue_pair = *staged_;
    staged_ = queue_pair.next_staged;
    queue_pair.in_staged_list = false;
    queue_pair.ring();
  }
  if (!refused_.empty()) fail_refused();
}

void ProgressLoop::fail_refused() noexcept {
  const std::vector<Refused> refused = std::exchange(refused_, {});
  for (const Refused& each : refused) each.queue_pair->link().on_post_failed(*each.queue_pair, each.error);
}

void ProgressLoop::add_window_due(QueuePair& queue_pair) noexcept {
  if (std::find(window_due_.begin(), window_due_.end(), &queue_pair) == window_due_.end()) window_due_.push_back(&queue_pair);
}

void ProgressLoop::return_windows() noexcept {
  window_later_.clear();
  for (QueuePair* queue_pair : window_due_) {
    if (!queue_pair->return_window()) window_later_.push_back(queue_pair);
  }
  window_due_.swap(window_later_);
}

}  // namespace mesh::engine

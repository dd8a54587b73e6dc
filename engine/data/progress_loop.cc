#include "engine/data/progress_loop.h"

#include "engine/data/progress_loop_datapath.h"

#include "src/base/check.h"
#include "src/base/held_locks.h"
#include "src/base/yielding.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace mesh::engine {

namespace {
// Full batches per completion queue and turn, besides the first batch of an only queue; more would
// make submissions wait.
constexpr int kPollRounds = 4;
// Completion queues polled in a turn that NCCL's thread makes. A context of many peers has many of
// them, and a test of one request must not pay for all.
constexpr std::size_t kPollsPerTurn = 3;
constexpr std::uint32_t kVisitsPerTurn = 64;  // channels; the others come first in the next turn
// Visits in vain to a link's waiting channels, in a turn; visits that find some room do not count.
constexpr std::uint32_t kVainVisits = 2;
constexpr int kMailRounds = 4;  // after a release; whoever leaves mail also tries the progress lock
// Tries of a poller that dozes; together they take some 50 us, and a caller's turn takes 1 us.
constexpr int kLookTries = 1000;
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

bool ProgressLoop::poller_turn() noexcept {
  poller_turns_.store(poller_turns() + 1, std::memory_order_relaxed);
  return try_acquire() && turn_of_poller();
}

// No Guard: a thread that waits for one on a CPU that another thread takes keeps callers out.
bool ProgressLoop::look() noexcept {
  for (int i = 0; i < kLookTries; ++i) {
    if (try_acquire()) return turn_of_poller();
  }
  return false;
}

bool ProgressLoop::turn_of_poller() noexcept {
  poll_once(nullptr);
  const bool moved = events_ != std::exchange(poller_seen_, events_);
  release();
  after_release();
  return moved;
}

// Polls one of several queues, or the rest of one that gave a full batch.
void ProgressLoop::poll_on(const Source& source) noexcept {
  std::uint32_t taken = kPollBatch;
  for (int round = 0; round < kPollRounds && taken == kPollBatch; ++round) {
    taken = source.device->poll(source.queue);
    events_ += taken;
  }
}

// Polls the queue of `first`, as a channel of one path has its completions in one queue as a rule;
// the other queues take turns. A poller has nothing else to do and polls all.
void ProgressLoop::poll_several(const Channel* first) noexcept {
  if (first == nullptr || sources_.size() <= kPollsPerTurn ||
      first->link.paths().usable_count() > 1) {
    for (const Source& source : sources_) poll_on(source);
    return;
  }
  const QueuePair& express = first->link.paths().express(first->index);
  if (express.verbs() != nullptr) {
    DeviceContext& device = *express.path().device;
    poll_on({.device = &device, .queue = device.queue_of(express)});
  }
  for (std::size_t i = 1; i < kPollsPerTurn; ++i) {
    next_source_ = next_source_ + 1 < sources_.size() ? next_source_ + 1 : 0;
    poll_on(sources_[next_source_]);
  }
}

void ProgressLoop::work(Channel* first) noexcept {
  // Credits are read and messages posted channel by channel, first for the channel that NCCL tests.
  // A channel that waits for something keeps its place in the list: otherwise the one that is
  // tested most would take whatever a full path frees.
  if (first != nullptr && !first->active) visit(*first);
  visit_active();
  // Windows after the data: what was received in this turn goes back with one window word.
  return_windows();
  ring_staged();
  has_work_ = !active_.empty() || !full_.empty() || !window_due_.empty();
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
  DCHECK(!loop_.held());  // it would wait for itself
  loop_.progress_lock_.fetch_add(kGuard, std::memory_order_seq_cst);
  Yielding holder;
  while ((loop_.progress_lock_.fetch_or(kHeld, std::memory_order_seq_cst) & kHeld) != 0) {
    if (!holder.sleeps()) {
      holder.wait();
      continue;
    }
    // The claim keeps others out, so a thread that sleeps makes none.
    loop_.progress_lock_.fetch_sub(kGuard, std::memory_order_seq_cst);
    holder.wait();
    loop_.progress_lock_.fetch_add(kGuard, std::memory_order_seq_cst);
    holder.yield_again();
  }
  loop_.progress_lock_.fetch_sub(kGuard, std::memory_order_seq_cst);
  loop_.holder_.take();
  note_progress_lock(+1);
}

ProgressLoop::Guard::~Guard() {
  loop_.ring_staged();
  note_progress_lock(-1);
  loop_.release();
  loop_.after_release();
  loop_.waker_.guard_ended();
}

void ProgressLoop::drop_source(const ibv_cq* queue) noexcept {
  DCHECK(held());
  std::erase_if(sources_, [queue](const Source& each) { return each.queue == queue; });
  only_ = sources_.size() == 1 ? sources_.front() : Source{};
}

void ProgressLoop::attach(Channel& channel) {
  DCHECK(held());
  channel.mail_bit = next_mail_bit_++ % kMailBits;
  channels_[channel.mail_bit].push_back(&channel);
}

void ProgressLoop::forget(Channel& channel) noexcept {
  DCHECK(held());
  std::erase(channels_[channel.mail_bit], &channel);
  if (!channel.active || active_.remove(channel)) return;
  const bool waited = channel.link.waiting_for_room.remove(channel);
  DCHECK(waited);
  if (channel.link.waiting_for_room.empty()) std::erase(full_, &channel.link);
}

void ProgressLoop::forget(QueuePair& queue_pair) noexcept {
  DCHECK(held());
  std::erase_if(window_due_, [&queue_pair](const QueuePair* each) { return each == &queue_pair; });
  queue_pair.window_due = false;
  std::erase_if(refused_,
                [&queue_pair](const Refused& each) { return each.queue_pair == &queue_pair; });
  unstage(queue_pair);
}

void ProgressLoop::unstage(QueuePair& queue_pair) noexcept {
  if (!queue_pair.in_staged_list) return;
  QueuePair** link = &staged_;
  while (*link != &queue_pair) {
    DCHECK(*link != nullptr);  // one that has something staged is in the list
    link = &(*link)->next_staged;
  }
  *link = queue_pair.next_staged;
  queue_pair.in_staged_list = false;
}

void ProgressLoop::activate(Channel& channel) noexcept {
  DCHECK(held());
  DCHECK(&channel.loop == this);
  if (channel.active) return;
  has_work_ = true;
  active_.push_back(channel);
}

namespace {
// Returns true if the channel wants another visit only because its paths are full.
bool waits_for_room(const Channel& channel) noexcept {
  return channel.side == Side::Send && static_cast<const SendChannel&>(channel).waits_for_room();
}
}  // namespace

// Lists a channel for its next visit. Those that wait for room are kept apart by link, as all would
// be visited in vain turn after turn. One alone need not be.
void ProgressLoop::wait_for_visit(Channel& channel) noexcept {
  PeerLink& link = channel.link;
  const bool alone = active_.empty() && link.waiting_for_room.empty();
  if (channel.active || alone || !waits_for_room(channel)) return activate(channel);
  has_work_ = true;
  if (link.waiting_for_room.empty()) {
    DCHECK(full_.size() < full_.capacity());  // a turn allocates nothing
    full_.push_back(&link);
  }
  ChannelList one;
  one.push_back(channel);
  // Nobody else may take what comes free, so nothing goes out before it is visited.
  if (SendChannel::of(channel).is_next()) return link.waiting_for_room.put_before(one);
  link.waiting_for_room.append(one);
}

namespace {
bool note_tagged(Channel& channel) noexcept {
  return channel.side == Side::Send && SendChannel::of(channel).see_tagged();
}
}  // namespace

void ProgressLoop::submit_tagged(SendChannel& channel) noexcept {
  if (try_acquire()) {
    if (channel.see_tagged()) visit_and_ring(channel);
    release();
  } else {
    leave_mail(channel);
  }
  after_release();
}

void ProgressLoop::take_mail() noexcept {
  DCHECK(held());
  std::uint64_t bits = mailbox_.exchange(0, std::memory_order_seq_cst);
  while (bits != 0) {
    for (Channel* channel : channels_[static_cast<std::size_t>(std::countr_zero(bits))]) {
      const bool tagged = note_tagged(*channel);  // also of a channel that is activated anyhow
      if (tagged || channel->has_new()) activate(*channel);
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

ProgressLoop::Visit ProgressLoop::visit_in_turn(Channel& channel) noexcept {
  const std::uint32_t outstanding = channel.outstanding;
  if (!advance(channel, true)) return Visit::Over;
  return channel.outstanding == outstanding ? Visit::InVain : Visit::Served;
}

// Visits the eldest first. A channel that claims the next bytes of a path keeps its place here too;
// others that find no room go behind, because the elder ones may wait for another path.
void ProgressLoop::visit_waiting(ChannelList& waiting, ChannelList* served) noexcept {
  ChannelList keep;
  std::uint32_t in_vain = 0;
  std::uint32_t visits = std::min(waiting.count(), kVisitsPerTurn);
  for (; visits != 0 && in_vain < kVainVisits; --visits) {
    Channel& channel = waiting.take_front();
    const Visit visit = visit_in_turn(channel);
    if (visit == Visit::Over) continue;
    if (visit == Visit::Served || !waits_for_room(channel)) {
      served->push_back(channel);
    } else if (static_cast<const SendChannel&>(channel).is_next()) {
      keep.push_back(channel);
    } else {
      waiting.push_back(channel);
      ++in_vain;
    }
  }
  waiting.put_before(keep);
}

void ProgressLoop::visit_full(ChannelList* served) noexcept {
  still_full_.clear();
  full_.swap(still_full_);
  for (PeerLink* link : still_full_) {
    visit_waiting(link->waiting_for_room, served);
    if (!link->waiting_for_room.empty()) full_.push_back(link);
  }
}

void ProgressLoop::visit_active() noexcept {
  // A channel that has posted goes behind those that could not: otherwise the first in the list
  // takes whatever a full path frees.
  ChannelList served;
  if (!full_.empty()) visit_full(&served);
  for (std::uint32_t visits = std::min(active_.count(), kVisitsPerTurn); visits != 0; --visits) {
    Channel& channel = active_.take_front();
    const Visit visit = visit_in_turn(channel);
    if (visit == Visit::Served) served.push_back(channel);
    if (visit == Visit::InVain) wait_for_visit(channel);
  }
  while (!served.empty()) wait_for_visit(served.take_front());
}

void ProgressLoop::fail_refused() noexcept {
  DCHECK(held());
  DCHECK(refusing_.empty());
  refusing_.swap(refused_);  // both keep their room
  has_refused_ = false;
  for (const Refused& each : refusing_)
    each.queue_pair->link().on_post_failed(*each.queue_pair, each.error);
  refusing_.clear();
}

void ProgressLoop::add_window_due(RecvQueuePair& queue_pair) noexcept {
  DCHECK(held());
  if (queue_pair.window_due) return;
  DCHECK(window_due_.size() < window_due_.capacity());  // a turn allocates nothing
  queue_pair.window_due = true;
  window_due_.push_back(&queue_pair);
  has_work_ = true;
}

void ProgressLoop::return_windows() noexcept {
  if (window_due_.empty()) return;
  DCHECK(held());
  window_later_.clear();
  for (RecvQueuePair* queue_pair : window_due_) {
    DCHECK(queue_pair->window_due);
    if (!queue_pair->return_window()) window_later_.push_back(queue_pair);
  }
  window_due_.swap(window_later_);
}

}  // namespace mesh::engine

#include "src/relay/end_completion_queue.h"

#include "src/base/check.h"
#include "src/relay/end_device.h"

#include <algorithm>
#include <array>
#include <mutex>

namespace mesh::relay {

namespace {
constexpr int kPollBatch = 16;
}  // namespace

bool EndCompletionQueue::in_use() noexcept {
  const std::lock_guard guard(lock_);
  const auto is_one = [](const EndQueuePair* each) { return each != nullptr; };
  return !receivers_.empty() || std::any_of(senders_.begin(), senders_.end(), is_one);
}

bool EndCompletionQueue::add_sender(EndQueuePair& queue_pair) {
  const std::lock_guard guard(lock_);
  const auto free = std::find(senders_.begin(), senders_.end(), nullptr);
  const auto index = static_cast<std::uint32_t>(free - senders_.begin());
  const std::uint32_t left = static_cast<std::uint32_t>(sends_->cqe) - reserved_;
  if (index == kEndQueuePairsMax || queue_pair.reserved() > left) return false;
  if (index == lives_.size()) lives_.push_back(0);  // both may throw
  if (free == senders_.end()) senders_.push_back(nullptr);
  reserved_ += queue_pair.reserved();
  senders_[index] = &queue_pair;
  queue_pair.set_index(index, lives_[index]);
  return true;
}

bool EndCompletionQueue::add_receiver(EndQueuePair& queue_pair) {
  const std::lock_guard guard(lock_);
  if (receivers_.size() == kEndQueuePairsMax) return false;
  receivers_.push_back(&queue_pair);
  return true;
}

void EndCompletionQueue::remove_sender(EndQueuePair& queue_pair) noexcept {
  const std::lock_guard guard(lock_);
  senders_[queue_pair.index()] = nullptr;
  lives_[queue_pair.index()] = queue_pair.life() + 1;
  DCHECK(reserved_ >= queue_pair.reserved());
  reserved_ -= queue_pair.reserved();
}

void EndCompletionQueue::remove_receiver(EndQueuePair& queue_pair) noexcept {
  const std::lock_guard guard(lock_);
  std::erase(receivers_, &queue_pair);
}

void EndCompletionQueue::on_flushed(std::uint32_t qp_num) noexcept {
  for (EndQueuePair* const each : receivers_) {
    if (each->verbs.qp_num == qp_num) return each->note_flushed();
  }
}

int EndCompletionQueue::poll_receives(int count, ibv_wc* wc) noexcept {
  const int found = ibv_poll_cq(receives_.get(), count, wc);
  for (int i = 0; i < found; ++i) {
    if (wc[i].status != IBV_WC_SUCCESS) [[unlikely]]
      on_flushed(wc[i].qp_num);
  }
  return found;
}

bool EndCompletionQueue::take_real_sends() noexcept {
  std::array<ibv_wc, kPollBatch> completions;
  int found = kPollBatch;
  // At most what the queue holds; more arrive only if somebody goes on posting.
  for (std::uint32_t left = reserved_ / kPollBatch + 1; left != 0 && found == kPollBatch; --left) {
    found = ibv_poll_cq(sends_.get(), kPollBatch, completions.data());
    for (int i = 0; i < found; ++i) {
      const ibv_wc& completion = completions[static_cast<std::size_t>(i)];
      const std::size_t index = completion.wr_id >> 48;
      if (index < senders_.size() && senders_[index] != nullptr)
        senders_[index]->on_completion(completion);
    }
  }
  return found >= 0;
}

int EndCompletionQueue::poll_sends(int count, ibv_wc* wc) noexcept {
  int found = 0;
  const auto senders = static_cast<std::uint32_t>(senders_.size());
  std::uint32_t at = next_;
  for (std::uint32_t i = 0; i < senders && found < count; ++i) {
    EndQueuePair* const each = senders_[at];
    if (++at == senders) at = 0;
    if (each != nullptr && each->has_answers()) found += each->poll(count - found, wc + found);
  }
  if (found == count && senders != 0) next_ = next_ + 1 == senders ? 0 : next_ + 1;
  return found;
}

int EndCompletionQueue::poll(int count, ibv_wc* wc) noexcept {
  const std::lock_guard guard(lock_);
  int found = sends_first_ ? poll_sends(count, wc) : 0;
  if (found < count) {
    const int received = poll_receives(count - found, wc + found);
    if (received < 0) return received;
    found += received;
  }
  if (!take_real_sends()) return -1;
  bool answers = false;
  for (EndQueuePair* const each : senders_) {
    if (each == nullptr) continue;
    if (!each->rests()) each->turn();
    answers |= each->has_answers();
  }
  if (answers && found < count) found += poll_sends(count - found, wc + found);
  sends_first_ = found == count && !sends_first_;
  return found;
}

}  // namespace mesh::relay

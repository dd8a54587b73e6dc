#pragma once
// Channels that want a visit, in order. A channel is in one list at most (Channel::active), and the
// list lies in the channels: nothing is allocated. Thread: loop (progress lock). Bound: none, all
// channels.

#include "engine/data/channel.h"
#include "src/base/check.h"

#include <cstdint>

namespace mesh::engine {

class ChannelList {
 public:
  bool empty() const noexcept { return first_ == nullptr; }
  std::uint32_t count() const noexcept { return count_; }

  void push_back(Channel& channel) noexcept {
    DCHECK(!channel.active);
    channel.active = true;
    channel.next_active = nullptr;
    (last_ == nullptr ? first_ : last_->next_active) = &channel;
    last_ = &channel;
    ++count_;
  }
  // Removes the first channel and returns it. The list must not be empty.
  Channel& take_front() noexcept {
    DCHECK(first_ != nullptr && first_->active && count_ != 0);
    Channel& channel = *first_;
    first_ = channel.next_active;
    if (first_ == nullptr) last_ = nullptr;
    --count_;
    channel.active = false;
    return channel;
  }
  void append(ChannelList& others) noexcept {
    others.put_before(*this);
    *this = others;
    others = {};
  }
  // Moves all channels of `others` in front of ours.
  void put_before(ChannelList& others) noexcept {
    if (others.empty()) return;
    others.last_->next_active = first_;
    if (last_ == nullptr) last_ = others.last_;
    first_ = others.first_;
    count_ += others.count_;
    others = {};
  }
  // Returns false if the channel is not in this list.
  bool remove(Channel& channel) noexcept {
    Channel** link = &first_;
    Channel* before = nullptr;
    for (; *link != nullptr && *link != &channel; link = &(*link)->next_active) before = *link;
    if (*link == nullptr) return false;
    *link = channel.next_active;
    if (last_ == &channel) last_ = before;
    DCHECK(channel.active && count_ != 0);
    --count_;
    channel.active = false;
    return true;
  }

 private:
  Channel* first_ = nullptr;
  Channel* last_ = nullptr;
  std::uint32_t count_ = 0;
};

}  // namespace mesh::engine

#pragma once
// The channels of a link by index, and where their announcements find their receives. Thread: the
// hot part by the loop's holder; channels come and go under the control mutex and progress lock.
// Bound: kChannelsMax channels.

#include <mesh/metrics.h>

#include "engine/data/channel.h"
#include "engine/data/device_context.h"
#include "engine/data/recv_channel.h"
#include "engine/data/send_channel.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace mesh::engine {

class ChannelTable {
 public:
  explicit ChannelTable(PeerLink& link);

  // imm and bytes: 32 bits each. Returns as RecvChannel::on_message() does.
  // (progress_loop_datapath.h)
  Request* on_announcement(std::uint64_t imm, std::uint64_t bytes,
                           Behind behind = Behind::Nothing) noexcept;

  // ---- Holding the progress lock.
  SendChannel* add_sender(std::uint32_t index, std::uint32_t life, std::byte* credits);
  RecvChannel* add_receiver(std::uint32_t index, std::uint32_t life, Record* records);
  void remove(std::uint32_t index) noexcept;
  bool have_open_requests() const noexcept;
  std::uint64_t ended_requests() const noexcept;  // of the channels that are there
  bool rewrite_credits() noexcept;  // after a fence; false: queues were full, call again

  // ---- Control mutex, or the progress lock.
  // Returns null if there is no such channel.
  Channel* find(std::uint32_t index) const noexcept {
    return index < channels_.size() ? channels_[index].get() : nullptr;
  }
  template <typename Visit>
  void for_each(Visit&& visit) const {
    for (const auto& channel : channels_) {
      if (channel) visit(*channel);
    }
  }
  std::uint32_t count() const noexcept { return count_; }
  std::uint32_t index_bound() const noexcept {
    return static_cast<std::uint32_t>(channels_.size());
  }
  bool all_ended() const noexcept;
  const EndedChannels& ended() const noexcept { return ended_; }

 private:
  [[gnu::noinline]] void on_rare_announcement(Request& slot, std::uint64_t imm) noexcept;
  template <typename Kind>
  Kind* place(std::unique_ptr<Kind> channel, std::uint32_t life);
  void place_slots(std::uint32_t index, RecvChannel* receiver) noexcept;
  void make_room_for(std::uint32_t index);

  PeerLink& link_;
  std::vector<std::unique_ptr<Channel>> channels_;  // by index
  std::vector<RecvChannel*> receivers_;             // by index, null where there is none
  // Finds an announcement's slot by the low bits of its channel: the table's size is a power of
  // two, and what a slot expects holds all bits of its channel. An entry without a receiver has a
  // slot that expects nothing.
  struct Slots {
    Request* first = nullptr;
    std::uint64_t mask = 0;
  };
  Request nobodys_;
  std::vector<Slots> slots_{1, Slots{.first = &nobodys_, .mask = 0}};
  std::uint64_t slots_mask_ = 0;
  std::uint32_t count_ = 0;
  EndedChannels ended_;
};

}  // namespace mesh::engine

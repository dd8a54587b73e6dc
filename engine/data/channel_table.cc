#include "engine/data/channel_table.h"

#include "engine/data/peer_link.h"
#include "engine/data/progress_loop.h"
#include "src/base/check.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace mesh::engine {

ChannelTable::ChannelTable(PeerLink& link) : link_(link) {}

// Handles an announcement of a message with a record, or a late one.
void ChannelTable::on_rare_announcement(Request& slot, std::uint64_t imm) noexcept {
  if (slot.expected == imm) return RecvChannel::of(*slot.channel).on_recorded(slot);
  link_.loop().counters.late_announcements.add(1);
}

// A channel of a link that is failing is told at once; the link's end comes with the next control
// pass.
template <typename Kind>
Kind* ChannelTable::place(std::unique_ptr<Kind> channel, std::uint32_t life) {
  DCHECK(link_.loop().held());
  Kind* const added = channel.get();
  added->life_number = life;
  added->start(in_key_set(generation_base(life), link_.paths().key_set()));
  make_room_for(added->index);  // from here on only attach() may throw, and then has done nothing
  CHECK(!channels_[added->index]);
  link_.loop().attach(*added);
  if (link_.failure() != Errc::Ok) added->fail_all(link_.failure());
  if (link_.reach().unreachable()) added->fail_all(Errc::Unreachable);  // its first message fails
  if (link_.reach().lazy()) added->sleep();
  channels_[added->index] = std::move(channel);
  ++count_;
  return added;
}

void ChannelTable::make_room_for(std::uint32_t index) {
  const std::size_t bound = std::max<std::size_t>(channels_.size(), index + 1);
  slots_.resize(std::bit_ceil(bound), {.first = &nobodys_, .mask = 0});
  slots_mask_ = slots_.size() - 1;
  DCHECK(slots_.size() >= channels_.size());
  receivers_.resize(bound);
  channels_.resize(bound);
}

void ChannelTable::place_slots(std::uint32_t index, RecvChannel* receiver) noexcept {
  DCHECK(index < receivers_.size());
  receivers_[index] = receiver;
  slots_[index] = receiver == nullptr
                      ? Slots{.first = &nobodys_, .mask = 0}
                      : Slots{.first = receiver->requests.get(), .mask = receiver->slot_mask};
}

SendChannel* ChannelTable::add_sender(std::uint32_t index, std::uint32_t life, std::byte* credits) {
  return place(std::make_unique<SendChannel>(link_, index, credits), life);
}

RecvChannel* ChannelTable::add_receiver(std::uint32_t index, std::uint32_t life, Record* records) {
  RecvChannel* const added = place(std::make_unique<RecvChannel>(link_, index, records), life);
  place_slots(index, added);
  return added;
}

void ChannelTable::remove(std::uint32_t index) noexcept {
  ProgressLoop& loop = link_.loop();
  DCHECK(loop.held());
  DCHECK(index < channels_.size() && channels_[index]);
  Channel& channel = *channels_[index];
  DCHECK(channel.outstanding == 0);
  DCHECK(count_ != 0);
  const MessageCounts counts = channel.counts();
  const bool sent = channel.side == Side::Send;
  (sent ? loop.counters.messages_sent : loop.counters.messages_received).add(counts.messages);
  loop.counters.bytes_received.add(counts.bytes_received);
  ended_.messages.add(counts.messages);
  ended_.bytes_received.add(counts.bytes_received);
  loop.forget(channel);
  place_slots(index, nullptr);
  channels_[index].reset();
  --count_;
}

// A link whose channels have all ended is taken apart by the peer without further word.
bool ChannelTable::all_ended() const noexcept {
  return std::all_of(
      channels_.begin(), channels_.end(), [](const std::unique_ptr<Channel>& channel) {
        return !channel || channel->failure.load(std::memory_order_relaxed) != Errc::Ok;
      });
}

bool ChannelTable::have_open_requests() const noexcept {
  return std::any_of(channels_.begin(), channels_.end(),
                     [](const std::unique_ptr<Channel>& channel) {
                       return channel && channel->open_count() != 0;
                     });
}

std::uint64_t ChannelTable::ended_requests() const noexcept {
  std::uint64_t ended = 0;
  for_each([&ended](const Channel& channel) {
    ended += channel.submitted.load(std::memory_order_acquire) - channel.open_count();
  });
  return ended;
}

bool ChannelTable::rewrite_credits() noexcept {
  DCHECK(link_.loop().held());
  bool done = true;
  for (RecvChannel* const receiver : receivers_) {
    if (receiver != nullptr && !receiver->rewrite_credits()) done = false;
  }
  return done;
}

}  // namespace mesh::engine

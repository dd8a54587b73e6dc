#include "engine/data/channel.h"

#include "engine/data/peer_link.h"
#include "engine/data/progress_loop.h"
#include "src/base/check.h"
#include "src/base/log.h"

#include <algorithm>
#include <bit>

namespace mesh {

Channel::Channel(engine::PeerLink& link_of, engine::Side side_of, std::uint32_t index_of)
    : side(side_of),
      index(index_of),
      link(link_of),
      loop(link_of.loop()),
      slot_count(link_of.policy().slots),
      slot_mask(slot_count - 1),
      callers_turn(loop.callers_turn.load(std::memory_order_relaxed)),
      batch(callers_turn ? link_of.policy().batch : 1),
      requests(std::make_unique<Request[]>(slot_count)),
      takes(side_of == engine::Side::Send ? engine::Takes::Sends : engine::Takes::Receives) {
  DCHECK(std::has_single_bit(slot_count) && slot_count <= kSlotsMax);
  DCHECK(index < kChannelsMax);
  DCHECK(batch != 0);
  for (std::uint32_t slot = 0; slot < slot_count; ++slot) requests[slot].channel = this;
}

Errc Channel::refuse_range(const void* data, std::size_t bytes) const noexcept {
  LOG_WARN("channel {}: {} bytes at {} are not within the memory handle given", index, bytes, data);
  return Errc::InvalidArgument;
}

// A slot that is used again meanwhile is taken for its predecessor; the next look finds the number
// gone.
engine::OpenRequest Channel::oldest_open(std::uint64_t from) const noexcept {
  const std::uint64_t limit = submitted.load(std::memory_order_acquire);  // pairs with publish()
  DCHECK(from <= limit);
  std::uint64_t sequence = std::max(from, limit > slot_count ? limit - slot_count : 0);
  for (; sequence < limit; ++sequence) {
    if (request(sequence).state.load(std::memory_order_acquire) == RequestState::Submitted)
      return {sequence, true};
  }
  return {limit, false};
}

std::uint32_t Channel::open_count() const noexcept {
  return static_cast<std::uint32_t>(
      std::count_if(requests.get(), requests.get() + slot_count, [](const Request& request) {
        return request.state.load(std::memory_order_acquire) == RequestState::Submitted;
      }));
}

// Only a send channel posts stripes.
void Channel::replay(const engine::Span& /*lost*/) { CHECK(side == engine::Side::Send); }

void Channel::take_no_more(Errc why) noexcept {
  DCHECK(loop.held());
  DCHECK(why != Errc::Ok);
  slow_path_ = true;
  Errc expected = Errc::Ok;
  failure.compare_exchange_strong(expected, why, std::memory_order_release,
                                  std::memory_order_relaxed);
  takes.store(engine::Takes::Nothing, std::memory_order_release);
}

void Channel::sleep() noexcept {
  DCHECK(loop.held());
  takes.store(engine::Takes::Nothing, std::memory_order_release);
}

void Channel::wake() noexcept {
  DCHECK(loop.held());
  if (failure.load(std::memory_order_relaxed) != Errc::Ok) return;
  takes.store(side == engine::Side::Send ? engine::Takes::Sends : engine::Takes::Receives,
              std::memory_order_release);
}

void Channel::fail_all(Errc why) noexcept {
  DCHECK(loop.held());
  take_no_more(why);
  const Errc first = failure.load(std::memory_order_relaxed);
  // What NCCL publishes from now on fails when it is accepted.
  drop_unposted(first);
  for (std::uint32_t slot = 0; slot < slot_count; ++slot) {
    Request& request = requests[slot];
    // acquire: a slot that NCCL is filling this moment is not ours yet, and its submission will
    // fail by itself.
    if (request.state.load(std::memory_order_acquire) == RequestState::Submitted)
      request.fail(first);
  }
}

Result<Registration*> register_memory(Channel& channel, const MemoryRange& range) {
  return channel.link.owner().register_memory(channel, range);
}

void deregister_memory(Channel& channel, Registration* region) noexcept {
  if (region != nullptr) channel.link.owner().deregister_memory(channel, *region);
}

void close(Channel* channel) noexcept {
  if (channel != nullptr) channel->link.owner().close_channel(*channel);
}

}  // namespace mesh

#include "engine/data/channel_base.h"

#include "engine/data/peer_link.h"
#include "engine/data/progress_loop.h"

#include <algorithm>

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
  for (std::uint32_t slot = 0; slot < slot_count; ++slot) requests[slot].channel = this;
}

// A slot that is used again meanwhile is taken for its predecessor; the next look finds the number
// gone.
engine::OpenRequest Channel::oldest_open(std::uint64_t from) const noexcept {
  const std::uint64_t limit = submitted.load(std::memory_order_acquire);  // pairs with publish()
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

void Channel::take_no_more(Errc why) noexcept {
  Errc expected = Errc::Ok;
  failure.compare_exchange_strong(expected, why, std::memory_order_release,
                                  std::memory_order_relaxed);
  takes.store(engine::Takes::Nothing, std::memory_order_release);
}

void Channel::fail_all(Errc why) noexcept {
  take_no_more(why);
  const Errc first = failure.load(std::memory_order_relaxed);
  // acquire: pairs with publish(); what NCCL publishes from now on fails when it is accepted.
  if (side == engine::Side::Send) {
    static_cast<engine::SendChannel*>(this)->drop_unposted(first);
  } else {
    static_cast<engine::RecvChannel*>(this)->fail_new(submitted.load(std::memory_order_acquire));
  }
  for (std::uint32_t slot = 0; slot < slot_count; ++slot) {
    Request& request = requests[slot];
    // acquire: a slot that NCCL is filling this moment is not ours yet, and its submission will
    // fail by itself.
    if (request.state.load(std::memory_order_acquire) == RequestState::Submitted)
      request.fail(first);
  }
}

}  // namespace mesh

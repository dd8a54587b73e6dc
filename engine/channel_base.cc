#include "engine/channel_base.h"

#include "engine/peer_link.h"
#include "engine/progress_loop.h"

namespace mesh {

Channel::Channel(engine::PeerLink& link_of, engine::Side side_of, std::uint32_t index_of)
    : side(side_of),
      index(index_of),
      link(link_of),
      loop(link_of.loop()),
      slot_count(link_of.policy().slots),
      slot_mask(slot_count - 1),
      requests(std::make_unique<Request[]>(slot_count)) {}

void Channel::fail_all(Errc why) noexcept {
  Errc expected = Errc::Ok;
  failure.compare_exchange_strong(expected, why, std::memory_order_release, std::memory_order_relaxed);
  const Errc first = failure.load(std::memory_order_relaxed);
  if (side == engine::Side::Send) static_cast<engine::SendChannel*>(this)->drop_unposted(first);
  // acquire: pairs with publish(); what NCCL publishes from now on fails when it is accepted.
  const std::uint64_t limit = submitted.load(std::memory_order_acquire);
  for (; accepted != limit; ++accepted) requests[accepted & slot_mask].fail(first);
  for (std::uint32_t slot = 0; slot < slot_count; ++slot) {
    Request& request = requests[slot];
    // acquire: a slot that NCCL is filling this moment is not ours yet, and its submission will fail by itself.
    if (request.state.load(std::memory_order_acquire) == RequestState::Submitted) request.fail(first);
  }
}

}  // namespace mesh

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
      batch(link_of.policy().batch),
      requests(std::make_unique<Request[]>(slot_count)),
      callers_turn(loop.callers_turn) {
  for (std::uint32_t slot = 0; slot < slot_count; ++slot) requests[slot].channel = this;
}

void Channel::fail_all(Errc why) noexcept {
  Errc expected = Errc::Ok;
  failure.compare_exchange_strong(expected, why, std::memory_order_release, std::memory_order_relaxed);
  const Errc first = failure.load(std::memory_order_relaxed);
  // acquire: pairs with publish(); what NCCL publishes from now on fails when it is accepted.
  if (side == engine::Side::Send) {
    static_cast<engine::SendChannel*>(this)->drop_unposted(first);
  } else {
    static_cast<engine::RecvChannel*>(this)->fail_new(submitted.load(std::memory_order_acquire));
  }
  for (std::uint32_t slot = 0; slot < slot_count; ++slot) {
    Request& request = requests[slot];
    // acquire: a slot that NCCL is filling this moment is not ours yet, and its submission will fail by itself.
    if (request.state.load(std::memory_order_acquire) == RequestState::Submitted) request.fail(first);
  }
}

}  // namespace mesh

#pragma once
// What both sides of a channel share: the ring of requests and its hand-over from NCCL's thread to the loop. The ring is the
// queue: NCCL fills slot n % slots and publishes n + 1; the loop accepts up to what is published. Slots are taken in order,
// so a slot that is not free means "no room".
// Thread: as noted per field. Bound: policy.slots requests.

#include <mesh/channel.h>
#include <mesh/policy.h>

#include "engine/request.h"

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

namespace mesh {

namespace engine {
class PeerLink;
class ProgressLoop;
enum class Side : std::uint8_t { Send, Receive };

// How far a channel is in its life; moved only under the engine's control mutex.
struct ChannelLife {
  bool closed_here = false;   // close() was called
  bool close_sent = false;    // CLOSE is on its way to the peer
  bool closed_there = false;  // the peer's CLOSE was acted on
  bool revoke_sent = false;   // REVOKE is on its way
  bool revoked = false;       // and was answered: no write of the peer's can come any more
};
}  // namespace engine

class Channel {
 public:
  Channel(engine::PeerLink& link_of, engine::Side side_of, std::uint32_t index_of);
  virtual ~Channel() = default;
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  // NCCL's thread. Null: no slot is free.
  Request* take_slot() noexcept {
    Request& slot = requests[next_sequence & slot_mask];
    return slot.state.load(std::memory_order_relaxed) == RequestState::Free ? &slot : nullptr;
  }
  // NCCL's thread, after filling the slot from take_slot().
  void publish(Request& slot) noexcept {
    slot.channel = this;
    slot.error = Errc::Ok;
    slot.state.store(RequestState::Submitted, std::memory_order_release);  // acquired where regions are looked for
    submitted.store(++next_sequence, std::memory_order_release);           // acquired in the loop's accept
  }

  // Loop, holding the token: fails what is open; later calls of NCCL answer why.
  void fail_all(Errc why) noexcept;

  // Loop: work requests posted for this channel whose completion is still to come.
  std::uint32_t outstanding = 0;

  const engine::Side side;
  const std::uint32_t index;  // in the link, what the immediate carries
  engine::PeerLink& link;
  engine::ProgressLoop& loop;
  const std::uint32_t slot_count;
  const std::uint32_t slot_mask;
  const std::unique_ptr<Request[]> requests;

  alignas(64) std::uint64_t next_sequence = 0;  // NCCL's thread
  std::atomic<std::uint64_t> submitted{0};      // requests ever published
  std::atomic<Errc> failure{Errc::Ok};          // sticky; loop releases, NCCL acquires

  alignas(64) std::uint64_t accepted = 0;  // loop: requests ever taken over
  std::uint32_t generation_base = 0;       // constant once open
  Channel* next_active = nullptr;          // loop: its list of channels with work
  bool active = false;
  std::uint32_t mail_bit = 0;                      // constant once attached
  std::uint32_t life_number = 0;                   // how often this index was used before
  engine::ChannelLife life;                        // control mutex
  std::map<Registration*, std::uint32_t> regions;  // control mutex: registered through this channel, how often
};

}  // namespace mesh

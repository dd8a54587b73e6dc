#include "engine/lane.h"

#include "engine/turn.h"

namespace mesh::engine {

void Lane::drain_queue(Queue& queue) noexcept {
  // A queue holds at most its entries; more arrive only if somebody goes on posting, and we hold the token.
  for (std::uint32_t round = 0; round < queue.entries / kPollBatch && poll(queue.cq.get()) == kPollBatch; ++round) {
  }
}

void Lane::drain() noexcept {
  for (Queue& queue : queues_) drain_queue(queue);
}

}  // namespace mesh::engine

#include "engine/data/lane.h"

#include "engine/data/turn.h"

namespace mesh::engine {

std::uint32_t Lane::dispatch_all(const ibv_wc* completions, int count) noexcept {
  if (count < 0) {
    on_poll_failed();
    return 0;
  }
  for (const ibv_wc* const end = completions + count; completions != end; ++completions)
    dispatch(*completions);
  return static_cast<std::uint32_t>(count);
}

void Lane::drain_queue(Queue& queue) noexcept {
  // A queue holds at most its entries; more arrive only if somebody goes on posting, and we hold
  // the token.
  const std::uint32_t rounds = (queue.entries + kPollBatch - 1) / kPollBatch;
  for (std::uint32_t round = 0; round < rounds && poll(queue.cq.get()) == kPollBatch; ++round) {
  }
}

void Lane::drain() noexcept {
  for (Queue& queue : queues_) drain_queue(queue);
}

}  // namespace mesh::engine

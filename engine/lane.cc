#include "engine/lane.h"

#include "engine/peer_link.h"
#include "engine/wire.h"

#include <array>

namespace mesh::engine {

namespace {
constexpr int kBatch = 16;  // completions taken per verbs call
}  // namespace

void Lane::dispatch(const ibv_wc& completion) noexcept {
  const auto at = static_cast<std::uint32_t>(completion.wr_id >> 48);
  if (at >= places_.size() || places_[at].queue_pair == nullptr) return;
  QueuePair& queue_pair = *places_[at].queue_pair;
  constexpr std::uint64_t kLifeBits = std::uint64_t{0x7fff} << 32;
  if ((completion.wr_id & kLifeBits) != (queue_pair.id_base() & kLifeBits)) return;
  if (completion.status != IBV_WC_SUCCESS) {
    queue_pair.link().on_error_completion(queue_pair, completion);
    return;
  }
  if ((completion.wr_id & kReceiveBit) == 0) {
    queue_pair.path().counters.send_completions.add(1);
    queue_pair.retire_through(static_cast<std::uint32_t>(completion.wr_id));
    return;
  }
  queue_pair.on_receive();
  queue_pair.link().on_announcement(queue_pair, __builtin_bswap32(completion.imm_data), completion.byte_len);
}

std::uint32_t Lane::poll_queue(Queue& queue, std::uint32_t bound) noexcept {
  std::array<ibv_wc, kBatch> completions;
  std::uint32_t taken = 0;
  while (taken < bound) {
    const int count = ibv_poll_cq(queue.cq.get(), kBatch, completions.data());
    if (count < 0) on_poll_failed();
    if (count <= 0) break;
    for (int i = 0; i < count; ++i) dispatch(completions[static_cast<std::size_t>(i)]);
    taken += static_cast<std::uint32_t>(count);
    if (count < kBatch) break;
  }
  return taken;
}

std::uint32_t Lane::poll(std::uint32_t bound) noexcept {
  std::uint32_t taken = 0;
  for (Queue& queue : queues_) taken += poll_queue(queue, bound);
  return taken;
}

void Lane::drain_queue(Queue& queue) noexcept {
  // A queue holds at most its entries; more arrive only if somebody goes on posting, and we hold the token.
  for (std::uint32_t round = 0; round < queue.entries / kBatch && poll_queue(queue, kBatch) == kBatch; ++round) {
  }
}

void Lane::drain() noexcept {
  for (Queue& queue : queues_) drain_queue(queue);
}

}  // namespace mesh::engine

#include <mesh/channel.h>

#include "engine/data/channel.h"
#include "engine/data/peer_link.h"
#include "engine/data/progress_loop.h"
#include "engine/data/queue_pair.h"
#include "engine/data/tag_queues.h"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace mesh {

namespace engine {

namespace {

// Reads what was posted for one channel from the rings of a link's queue pairs. An entry stays in
// its ring until the queue pair comes round to it again, so nobody has to write anything for a
// reader. Thread: NCCL's of the channel, which takes the progress lock. Bound: a reading for each
// queue pair of the link.
class ReaderOfRings final : public PostedReader {
 public:
  explicit ReaderOfRings(Channel& channel);

  std::size_t read(std::span<Posted> out) override;
  int rail() const override;

 private:
  // The entry up to which a queue pair has been read; it begins anew with a new verbs object.
  struct Reading {
    const QueuePair* queue_pair = nullptr;
    std::uint64_t id_base = 0, next = 0;
  };
  Reading& reading_of(const QueuePair& queue_pair);
  bool is_ours(const Request* request) const noexcept;
  std::size_t read_from(const QueuePair& queue_pair, std::span<Posted> out);

  Channel& channel_;
  std::vector<Reading> readings_;
};

std::uint64_t oldest_entry(const QueuePair& queue_pair) {
  const std::uint64_t depth = queue_pair.sq_depth();
  return queue_pair.posted() > depth ? queue_pair.posted() - depth : 0;
}

bool holds(const Request* first, std::uint32_t count, const Request* request) {
  return request >= first && request < first + count;
}

}  // namespace

ReaderOfRings::ReaderOfRings(Channel& channel) : channel_(channel) {
  const ProgressLoop::Guard guard(channel.loop);
  for (const Path& path : channel.link.paths().all()) {
    for (const auto& queue_pair : path.queue_pairs)
      reading_of(*queue_pair).next = queue_pair->posted();
  }
}

ReaderOfRings::Reading& ReaderOfRings::reading_of(const QueuePair& queue_pair) {
  const auto found = std::find_if(readings_.begin(), readings_.end(), [&](const Reading& reading) {
    return reading.queue_pair == &queue_pair;
  });
  if (found != readings_.end()) return *found;
  return readings_.emplace_back(
      Reading{.queue_pair = &queue_pair, .id_base = queue_pair.id_base(), .next = 0});
}

// Another channel's request may be gone, so its mark is compared and not followed.
bool ReaderOfRings::is_ours(const Request* request) const noexcept {
  if (request == nullptr) return false;
  if (holds(channel_.requests.get(), channel_.slot_count, request)) return true;
  const TagQueues* const tags = channel_.tags.load(std::memory_order_acquire);
  for (std::uint32_t i = 0; tags != nullptr && i < tags->count(); ++i) {
    if (holds(&tags->at(i).request(0), kTagSlots, request)) return true;
  }
  return false;
}

std::size_t ReaderOfRings::read_from(const QueuePair& queue_pair, std::span<Posted> out) {
  Reading& reading = reading_of(queue_pair);
  if (reading.id_base != queue_pair.id_base() || reading.next > queue_pair.posted())
    reading = {.queue_pair = &queue_pair, .id_base = queue_pair.id_base(), .next = 0};
  reading.next = std::max(reading.next, oldest_entry(queue_pair));
  std::size_t count = 0;
  for (; reading.next != queue_pair.posted() && count != out.size(); ++reading.next) {
    const Request* const request = queue_pair.request_at(reading.next);
    if (!is_ours(request)) continue;
    const StripeSpan stripe = queue_pair.span_at(reading.next);
    out[count++] = {.request = request,
                    .rail = static_cast<int>(queue_pair.path().rail),
                    .queue_pair = queue_pair.verbs()->qp_num,
                    .work_request = reading.next,
                    .offset = stripe.offset,
                    .bytes = stripe.bytes};
  }
  return count;
}

std::size_t ReaderOfRings::read(std::span<Posted> out) {
  const ProgressLoop::Guard guard(channel_.loop);
  std::size_t count = 0;
  for (const Path& path : channel_.link.paths().all()) {
    for (const auto& queue_pair : path.queue_pairs) {
      if (queue_pair->verbs() != nullptr) count += read_from(*queue_pair, out.subspan(count));
    }
  }
  return count;
}

int ReaderOfRings::rail() const {
  const ProgressLoop::Guard guard(channel_.loop);
  return channel_.link.paths().count() == 0 ? -1
                                            : static_cast<int>(channel_.link.paths().key_rail());
}

}  // namespace engine

std::unique_ptr<PostedReader> PostedReader::of(Channel& channel) {
  return std::make_unique<engine::ReaderOfRings>(channel);
}

}  // namespace mesh

#pragma once
// Reads what was posted for one channel from the rings of a link's queue pairs. An entry stays in
// its ring until the queue pair comes round to it again, so nobody has to write anything for a
// reader. Thread: NCCL's of the channel, which takes the progress lock. Bound: a place for each
// queue pair of the link.

#include <mesh/posted.h>

#include "engine/data/channel.h"

#include <cstdint>
#include <vector>

namespace mesh::engine {

class QueuePair;

class ReaderOfRings final : public PostedReader {
 public:
  explicit ReaderOfRings(Channel& channel);

  std::size_t read(std::span<Posted> out) override;
  int rail() const override;

 private:
  // The entry up to which a queue pair has been read; it begins anew with a new verbs object.
  struct Place {
    const QueuePair* queue_pair = nullptr;
    std::uint64_t id_base = 0, next = 0;
  };
  Place& place_of(const QueuePair& queue_pair);
  bool is_ours(const Request* request) const noexcept;
  std::size_t read_from(const QueuePair& queue_pair, std::span<Posted> out);

  Channel& channel_;
  std::vector<Place> places_;
};

}  // namespace mesh::engine

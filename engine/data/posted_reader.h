#pragma once
// Reads from the rings of a link's queue pairs what was posted of one channel. An entry stays in
// its ring until the queue pair comes round to it again, so nobody has to write anything for a
// reader. Thread: NCCL's of the channel, which takes the token. Bound: a place for each queue pair
// of the link.

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
  // How far a queue pair has been read. It begins anew when its verbs object does.
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

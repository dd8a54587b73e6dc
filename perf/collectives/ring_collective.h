#pragma once
// Collectives on a ring of the ranks, really computed on the CPU, spread over channels. Both arrays
// have the size of the larger one, and the smaller one's elements lie at its rank's block, where
// NCCL has them in place. Every element of the result is compared with the exact value. Thread: as
// Collective.

#include "perf/collectives/collective.h"
#include "perf/collectives/ring_channel.h"
#include "perf/driver/connection_set.h"
#include "perf/driver/registered.h"

#include <memory>
#include <string>
#include <vector>

namespace mesh::perf {

template <typename T>
class RingCollective final : public Collective {
 public:
  RingCollective(const Team& team, const CollectiveOptions& options);
  ~RingCollective() override;
  int open(std::string& error);

  std::size_t count_for(std::size_t bytes) const override { return bytes / sizeof(T) / blocks_; }
  std::size_t size_of(std::size_t count) const override { return count * sizeof(T) * blocks_; }
  double bus_factor() const override;
  bool set_placement(Placement placement) override;
  int run(std::size_t count, int iterations) override;
  int check(std::size_t count, std::uint64_t round, std::size_t& wrong) override;

 private:
  struct Channel {
    driver::Registered send_memory, recv_memory;
    std::unique_ptr<driver::Pipe> next, previous;
    std::unique_ptr<RingChannel<T>> ring;
  };
  int add_channel(int channel);
  T* input() const;
  // Elements [begin, end) of an array.
  struct Span {
    std::size_t begin = 0, end = 0;
  };
  Span own_block(std::size_t count) const;
  Span filled(std::size_t count) const;    // of the input
  Span expected(std::size_t count) const;  // of the output
  T expected_at(std::size_t index, std::size_t count, std::uint64_t round) const;
  std::size_t wrong_elements(std::size_t count, std::uint64_t round) const;

  const Team team_;
  const CollectiveOptions options_;
  const std::size_t blocks_;
  driver::ConnectionSet connections_;
  driver::Buffer input_, output_;
  Placement placement_ = Placement::OutOfPlace;
  std::vector<Channel> channels_;
};

}  // namespace mesh::perf

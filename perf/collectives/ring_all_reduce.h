#pragma once
// Sum all-reduce on a ring of the ranks, really computed on the CPU from one array into another,
// spread over channels. Every element of the result is compared with the exact sum. Thread: as
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
class RingAllReduce final : public Collective {
 public:
  RingAllReduce(const Team& team, std::size_t bytes_max);
  ~RingAllReduce() override;
  int open(std::string& error);

  std::size_t count_for(std::size_t bytes) const override { return bytes / sizeof(T); }
  std::size_t size_of(std::size_t count) const override { return count * sizeof(T); }
  double bus_factor() const override { return 2.0 * (team_.world() - 1) / team_.world(); }
  int run(std::size_t count, int iterations) override;
  int check(std::size_t count, std::uint64_t round, std::size_t& wrong) override;

 private:
  struct Channel {
    driver::Registered send_memory, recv_memory;
    std::unique_ptr<driver::Pipe> next, previous;
    std::unique_ptr<RingChannel<T>> ring;
  };
  int add_channel(int channel);
  std::size_t wrong_elements(std::size_t count, std::uint64_t round) const;

  const Team team_;
  driver::ConnectionSet connections_;
  driver::Buffer input_, output_;
  std::vector<Channel> channels_;
};

}  // namespace mesh::perf

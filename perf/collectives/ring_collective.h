#pragma once
// Collectives on a ring of the ranks, spread over channels. Thread: as Collective.

#include "perf/collectives/arrays.h"
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

  std::size_t count_for(std::size_t bytes) const override { return arrays_.count_for(bytes); }
  std::size_t size_of(std::size_t count) const override { return arrays_.size_of(count); }
  double bus_factor() const override;
  bool set_placement(Placement placement) override {
    arrays_.set_placement(placement);
    return true;
  }
  int run(std::size_t count, int iterations) override;
  int check(std::size_t count, std::uint64_t round, std::size_t& wrong) override;
  // Only an all-reduce over one channel has samples.
  const std::vector<double>* samples_us() const override {
    if (options_.kind != Kind::AllReduce || channels_.size() != 1) return nullptr;
    return &channels_[0].ring->samples_us();
  }

 private:
  struct Channel {
    driver::Registered send_memory, recv_memory;
    std::unique_ptr<driver::Pipe> next, previous;
    std::unique_ptr<RingChannel<T>> ring;
  };
  int add_channel(int channel);

  const Team team_;
  const CollectiveOptions options_;
  Arrays<T> arrays_;
  driver::ConnectionSet connections_;
  std::vector<Channel> channels_;
};

}  // namespace mesh::perf

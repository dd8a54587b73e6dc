#pragma once
// Latency between two ranks: rank 0 serves, rank 1 returns, one message at a time over one
// connection each way. Thread: as Collective.

#include "perf/collectives/collective.h"
#include "perf/collectives/volley.h"
#include "perf/driver/connection_set.h"
#include "perf/driver/pattern.h"
#include "perf/driver/registered.h"

#include <memory>
#include <string>
#include <vector>

namespace mesh::perf {

class PingPong final : public Collective {
 public:
  PingPong(const Team& team, const CollectiveOptions& options);
  ~PingPong() override;
  int open(std::string& error);

  std::size_t count_for(std::size_t bytes) const override {
    return bytes / info(options_.type).bytes;
  }
  std::size_t size_of(std::size_t count) const override {
    return count * info(options_.type).bytes;
  }
  int run(std::size_t count, int iterations) override;
  int check(std::size_t count, std::uint64_t round, std::size_t& wrong) override;
  const std::vector<double>* samples_us() const override { return &volley_->samples_us(); }

 private:
  driver::PatternKey key(int sender, std::uint64_t round) const;
  int peer() const { return 1 - team_.rank(); }

  const Team team_;
  const CollectiveOptions options_;
  driver::ConnectionSet connections_;
  driver::Registered send_memory_, recv_memory_;
  std::unique_ptr<driver::Pipe> send_, recv_;
  std::unique_ptr<Volley> volley_;
};

}  // namespace mesh::perf

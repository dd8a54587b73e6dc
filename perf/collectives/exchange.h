#pragma once
// Point-to-point traffic: sendrecv (everybody to the next in the ring) and alltoall (everybody to
// everybody). A message is what one isend carries, straight from the user's buffer; as many as
// asked for are in flight per connection, from as many slots. Thread: as Collective.

#include "perf/collectives/collective.h"
#include "perf/collectives/repeat.h"
#include "perf/driver/connection_set.h"
#include "perf/driver/pattern.h"
#include "perf/driver/registered.h"

#include <memory>
#include <string>
#include <vector>

namespace mesh::perf {

class Exchange final : public Collective {
 public:
  Exchange(const Team& team, const CollectiveOptions& options);
  ~Exchange() override;
  int open(std::string& error);

  std::size_t count_for(std::size_t bytes) const override;
  std::size_t size_of(std::size_t count) const override;
  double bus_factor() const override;
  std::size_t messages() const override {
    return plan_.send_to.size() * static_cast<std::size_t>(team_.channels);
  }
  int run(std::size_t count, int iterations) override;
  int check(std::size_t count, std::uint64_t round, std::size_t& wrong) override;

 private:
  // One connection and the data that it moves.
  struct Flow {
    driver::Side side = driver::Side::Send;
    int peer = 0;
    int channel = 0;
    driver::Registered memory;
    std::unique_ptr<driver::Pipe> pipe;
    std::unique_ptr<Repeat> repeat;
  };

  std::size_t message_bytes(std::size_t count) const;
  std::uint32_t slots_for(std::size_t bytes) const;
  int add_flow(std::vector<Flow>& flows, driver::Side side, std::size_t peer, int channel);
  void fill(std::size_t bytes, std::uint64_t round);
  std::size_t wrong_elements(std::size_t bytes, std::uint64_t round) const;
  driver::PatternKey key(const Flow& flow, std::uint64_t message) const;

  const Team team_;
  const CollectiveOptions options_;
  driver::ConnectionPlan plan_;
  driver::ConnectionSet connections_;
  std::vector<Flow> sends_, recvs_;
};

}  // namespace mesh::perf

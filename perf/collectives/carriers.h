#pragma once
// Ranks that only carry messages between ranks 0 and 1. Rank 0, the carriers and rank 1 are
// neighbours in this order, because the plugin relays over hosts to which it has links. Thread: as
// Collective.

#include "perf/collectives/collective.h"
#include "perf/driver/connection_set.h"

namespace mesh::perf {

// Opens the connections between neighbours, which stay open while others are measured. Every rank
// calls it at the same time. Returns an ncclResult_t.
int connect_neighbours(const Team& team, driver::ConnectionSet& connections);

// A carrier's part of a collective: it connects nothing and moves nothing.
class Carrying final : public Collective {
 public:
  Carrying(const Team& team, const CollectiveOptions& options)
      : team_(team), options_(options), connections_(*team.communicator) {}
  int open(std::string& error);

  std::size_t count_for(std::size_t bytes) const override {
    return bytes / info(options_.type).bytes;
  }
  std::size_t size_of(std::size_t count) const override {
    return count * info(options_.type).bytes;
  }
  int run(std::size_t, int) override { return driver::kNetSuccess; }
  int check(std::size_t, std::uint64_t, std::size_t&) override { return driver::kNetSuccess; }

 private:
  const Team team_;
  const CollectiveOptions options_;
  driver::ConnectionSet connections_;
};

}  // namespace mesh::perf

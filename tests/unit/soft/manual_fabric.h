#pragma once
// A fabric of two hosts on a manual clock, with as many connected endpoints as a test wants. Time
// jumps to the next moment at which something is due. Thread: the test's.

#include "src/soft/soft_provider.h"
#include "tests/contract/endpoint_pair.h"
#include "tests/prelude.h"

namespace mesh::soft {

struct Seen {
  std::uint64_t at_ns = 0;
  ibv_wc wc{};
};

class ManualFabric {
 public:
  ManualFabric(const std::string& link_fields, std::size_t pairs,
               const contract::PairOptions& options = {}, const std::string& costs = "{}");
  // The pairs are spread over the NICs of hosts a and b, which both have as many.
  ManualFabric(const FabricFile& fabric, std::size_t pairs, const contract::PairOptions& options);
  ~ManualFabric();

  // Runs until nothing is pending or the clock reaches `until_ns`. Fails the test if a turn that is
  // due does nothing.
  void run(std::uint64_t until_ns = UINT64_MAX);
  int write(std::size_t pair, std::uint64_t wr_id, std::uint32_t bytes,
            unsigned flags = IBV_SEND_SIGNALED);
  int announce(std::size_t pair, std::uint64_t wr_id, std::uint32_t bytes);  // with its receive
  std::uint64_t now_ns() const { return clock_ns.load(); }

  std::atomic<std::uint64_t> clock_ns{1'000'000};
  std::unique_ptr<SoftProvider> a, b;
  std::vector<contract::Endpoint> left, right;
  std::vector<std::vector<Seen>> sent, received;  // by pair
};

}  // namespace mesh::soft

#include "perf/collectives/carriers.h"

namespace mesh::perf {

int connect_neighbours(const Team& team, driver::ConnectionSet& connections) {
  driver::ConnectionPlan plan;
  plan.timeout = team.connect_timeout();
  // Rank 0, ranks 2 and above, rank 1.
  const int ranks = team.bootstrap->world(), rank = team.rank();
  const auto behind = [ranks](int one) { return one == 0 ? 2 : one + 1 < ranks ? one + 1 : 1; };
  if (rank != 1) plan.send_to = {behind(rank)};
  for (int one = 0; one < ranks; ++one) {
    if (one != 1 && behind(one) == rank) plan.recv_from = {one};
  }
  return connections.connect(*team.bootstrap, plan);
}

// Connects nothing, but takes part in the exchange by which the others connect.
int Carrying::open(std::string& error) {
  driver::ConnectionPlan plan;
  plan.timeout = team_.connect_timeout();
  const int result = connections_.connect(*team_.bootstrap, plan);
  if (result != driver::kNetSuccess)
    error = std::string("connecting failed: ") + driver::net_result_name(result);
  return result;
}

}  // namespace mesh::perf

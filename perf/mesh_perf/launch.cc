#include "perf/mesh_perf/launch.h"

#include "perf/driver/local_ranks.h"

#include <cstdio>

namespace mesh::perf {
namespace {

int report_end(const driver::LocalRanksEnd& run) {
  int worst = 0;
  for (std::size_t rank = 0; rank < run.ends.size(); ++rank) {
    const std::optional<driver::ProcessEnd>& end = run.ends[rank];
    if (!end || end->success()) continue;
    // Wrong data has its own status only if no rank failed in another way.
    const int code = end->exited && end->code == 2 ? 2 : 1;
    worst = worst == 1 ? 1 : code;
    std::fprintf(stderr, "mesh_perf: rank %zu (host %s) ended with %s\n", rank,
                 run.hosts[rank].c_str(), end->text().c_str());
  }
  return worst;
}

}  // namespace

int launch_ranks(const Options& options, int argc, char** argv) {
  driver::LocalRanks run{.tool = "mesh_perf",
                         .fabric = options.fabric,
                         .hosts = options.hosts,
                         .arguments = {argv + 1, argv + argc},
                         .timeout = std::chrono::seconds(options.timeout_s)};
  run.hosts.insert(run.hosts.end(), options.via.begin(), options.via.end());
  const auto end = driver::run_local_ranks(run);
  if (!end) return 1;
  const int worst = report_end(*end);
  return worst != 0 || end->how == driver::WaitEnd::AllEnded ? worst : 1;
}

}  // namespace mesh::perf

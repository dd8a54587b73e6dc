// mesh_perf is launcher and rank in one program. A process with a rendezvous is a rank.
#include "perf/driver/local_ranks.h"
#include "perf/driver/own_process.h"
#include "perf/mesh_perf/options.h"
#include "perf/mesh_perf/rank.h"

#include <cstdio>

namespace mesh::perf {
namespace {

int report_end(const driver::LocalRanksEnd& run) {
  int worst = 0;
  for (std::size_t rank = 0; rank < run.ends.size(); ++rank) {
    const std::optional<driver::ProcessEnd>& end = run.ends[rank];
    if (!end || end->success()) continue;
    // Wrong data has its own status only if no rank failed in another way.
    const int code = end->exited && end->code == 3 ? 3 : 1;
    worst = worst == 1 ? 1 : code;
    std::fprintf(stderr, "mesh_perf: rank %zu (host %s) ended with %s\n", rank,
                 run.hosts[rank].c_str(), end->text().c_str());
  }
  return worst;
}

// Starts the ranks on the hosts of the fabric file, and takes all of them down again whatever
// happens. Returns the exit status of the whole run.
int launch_ranks(const Options& options, int argc, char** argv) {
  driver::LocalRanks run{.tool = "mesh_perf",
                         .fabric = options.fabric,
                         .hosts = options.hosts,
                         .ranks_per_host = options.ranks_per_host,
                         .arguments = {argv + 1, argv + argc},
                         .timeout = std::chrono::seconds(options.timeout_s)};
  run.hosts.insert(run.hosts.end(), options.via.begin(), options.via.end());
  const auto end = driver::run_local_ranks(run);
  if (!end) return 1;
  const int worst = report_end(*end);
  return worst != 0 || end->how == driver::WaitEnd::AllEnded ? worst : 1;
}

}  // namespace
}  // namespace mesh::perf

int main(int argc, char** argv) {
  mesh::driver::take_nccl_conf();
  mesh::perf::Options options;
  int exit_code = 0;
  if (!mesh::perf::parse_options(argc, argv, options, &exit_code)) return exit_code;
  if (options.is_rank()) return mesh::perf::run_rank(options);
  return mesh::perf::launch_ranks(options, argc, argv);
}

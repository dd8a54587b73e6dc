// mesh_perf is launcher and rank in one program. A process with a rendezvous is a rank.
#include "perf/mesh_perf/launch.h"
#include "perf/mesh_perf/options.h"
#include "perf/mesh_perf/rank.h"

int main(int argc, char** argv) {
  mesh::perf::Options options;
  int exit_code = 0;
  if (!mesh::perf::parse_options(argc, argv, options, &exit_code)) return exit_code;
  if (options.is_rank()) return mesh::perf::run_rank(options);
  return mesh::perf::launch_ranks(options, argc, argv);
}

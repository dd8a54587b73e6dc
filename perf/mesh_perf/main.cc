// mesh_perf: launcher and rank are the same program; a rank is one that was given a rendezvous.
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

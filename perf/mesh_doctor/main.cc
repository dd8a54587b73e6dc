// mesh_doctor tells what is wrong with hosts and cables before NCCL does. A process with a
// rendezvous is one host of several.
#include "perf/driver/command_line.h"
#include "perf/driver/local_ranks.h"
#include "perf/mesh_doctor/doctor.h"

namespace mesh::doctor {
namespace {

// Starts the hosts. Rank 0 prints the report, and its exit status is the result.
int launch(const Options& options, int argc, char** argv) {
  const auto end = driver::run_local_ranks({.tool = "mesh_doctor",
                                            .fabric = options.fabric,
                                            .hosts = options.hosts,
                                            .arguments = {argv + 1, argv + argc},
                                            .timeout = std::chrono::seconds(options.timeout_s)});
  if (!end) return driver::kUsage;
  if (end->ends.empty() || !end->ends.front()) return kNoLook;
  const driver::ProcessEnd& first = *end->ends.front();
  return first.exited ? first.code : kNoLook;
}

}  // namespace
}  // namespace mesh::doctor

int main(int argc, char** argv) {
  mesh::doctor::Options options;
  int exit_code = 0;
  if (!mesh::doctor::parse_options(argc, argv, options, &exit_code)) return exit_code;
  if (options.launches()) return mesh::doctor::launch(options, argc, argv);
  return mesh::doctor::run_doctor(options);
}

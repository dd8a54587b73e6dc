#pragma once
// The command-line options that give a process its place among the ranks of a run, and those that
// run_local_ranks() appends for its own processes. Thread: any (values).

#include "perf/driver/bootstrap.h"
#include "perf/driver/command_line.h"
#include "perf/driver/world.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <string>
#include <vector>

namespace mesh::driver {

inline void add_rank_options(CLI::App& app, RankOptions& options) {
  app.add_option("--rank", options.world.rank,
                 "This process's rank (Env: RANK, or the variable of mpirun or srun)")
      ->check(in_range(0, static_cast<int>(kWorldMax) - 1))
      ->default_str("");
  app.add_option("--world-size", options.world.size,
                 "Number of ranks (Env: WORLD_SIZE, or the variable of mpirun or srun)")
      ->check(in_range(1, static_cast<int>(kWorldMax)))
      ->default_str("");
  app.add_option(
      "--rendezvous", options.world.rendezvous,
      "host:port or [v6]:port where rank 0 listens: this process is a rank (Env: MESH_RENDEZVOUS)");
  app.add_option("--rendezvous-fd", options.rendezvous_fd, "")->group("");
  app.add_flag("--launched", options.launched, "")->group("");
}

// Returns how this process meets the other ranks.
inline BootstrapOptions bootstrap_options(const RankOptions& options,
                                          std::chrono::milliseconds timeout, std::string* why) {
  return {.rank = options.world.rank,
          .world = options.world.size,
          .address = options.world.rendezvous,
          .listening_fd = options.rendezvous_fd,
          .timeout = timeout,
          .why = why};
}

// Returns the arguments without those that run_local_ranks() has appended.
inline std::vector<std::string> own_arguments(int argc, char** argv, const RankOptions& options) {
  std::vector<std::string> arguments(argv + 1, argv + argc);
  const auto last = std::find(arguments.rbegin(), arguments.rend(), "--rank");
  if (options.launched && last != arguments.rend())
    arguments.erase(last.base() - 1, arguments.end());
  return arguments;
}

}  // namespace mesh::driver

#pragma once
// The command line of mesh_tune. Thread: any (values).

#include "perf/driver/world.h"
#include "perf/mesh_tune/sweep.h"

#include <string>
#include <vector>

namespace mesh::tune {

struct Options : driver::RankOptions {
  bool quick = false;
  bool dry_run = false;
  int limit_s = 600;
  std::string model_file;   // not empty: on the model
  std::string fabric_file;  // of the software fabric, when we start both ranks
  std::string output = "mesh_tune.conf";
  std::string json_file;
  std::string plugin;
  std::vector<std::string> arguments;  // without those of our launcher

  // Returns the plan without the settings that the environment fixes.
  Plan plan() const;
  std::vector<std::string> fixed;  // their names
};

// Returns false if the process must end with *exit_code; help and mistakes have been printed.
bool parse_options(int argc, char** argv, Options& options, int* exit_code);

}  // namespace mesh::tune

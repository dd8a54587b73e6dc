#pragma once
// The command line of mesh_model. Thread: any (values).

#include <mesh/config.h>

#include "perf/model/fabric_spec.h"
#include "perf/model/measure.h"

#include <cstddef>
#include <cstdint>
#include <string>

namespace mesh::model {

struct Options {
  std::size_t bytes_min = 8, bytes_max = std::size_t{1} << 20;
  std::size_t step_factor = 4;
  std::uint64_t iterations = 0;  // 0: by size
  std::uint32_t outstanding = 8;
  std::uint32_t receives = 8;
  std::uint32_t channels = 1;
  bool one_way = false;
  bool sites = false;
  bool relays = false;     // the table of relays instead of sizes
  bool both_ways = false;  // the table of rings instead
  bool groups = false;     // the table of one-shot all-reduces instead
  std::size_t beside_bytes = 0;
  FabricSpec spec;
  std::string fabric_file;  // empty: spec
  CallCosts calls;
  Settings settings;
  std::string json_file;
};

// Returns false if the process must end with *exit_code.
bool parse_options(int argc, char** argv, Options& options, int* exit_code);

}  // namespace mesh::model

#pragma once
// The time of one-shot all-reduces in the model, by cables, hosts and size: the plugin's part, from
// NCCL's call to the last host's end. Thread: one.

#include "perf/model/options.h"

#include <cstddef>
#include <string>

namespace mesh::model {

struct GroupPoint {
  std::size_t steps = 0;
  double us = 0;  // median; 0: it failed, and `why` says why
  std::string why;
};
// cables: "full-mesh", "ring", or "cube" of eight.
GroupPoint measure_group(const Options& options, const std::string& cables, std::size_t hosts,
                         std::size_t bytes);

// Returns false if an experiment failed; the reason was printed.
bool print_groups(const Options& options);

}  // namespace mesh::model

#pragma once
// Reads NCCL_MESH_STATS, which says where the metrics go and how often: FILE[:SECONDS], with %h and
// %p in FILE for host and process. Thread: any (values). Bound: the text.

#include "src/base/timeouts.h"

#include <optional>
#include <string>
#include <string_view>

namespace mesh {

struct StatsTarget {
  std::string file;  // %h, %p and %% still in it
  int seconds = kStatsPeriodSeconds;
};

// Returns no value if the text is not of that form. The seconds follow the last colon behind the
// last slash, so a name with a colon needs them.
std::optional<StatsTarget> read_stats_target(std::string_view text);

// Returns the file's name with this process's host and number filled in.
std::string stats_file_name(std::string_view file, std::string_view host, int process);

}  // namespace mesh

#pragma once
// Where NCCL_MESH_STATS wants the metrics and how often: FILE[:SECONDS], with %h and %p in FILE for
// host and process. Thread: any (values).

#include <optional>
#include <string>
#include <string_view>

namespace mesh {

inline constexpr int kStatsSecondsUsual = 10, kStatsSecondsMax = 3600;

struct StatsTarget {
  std::string file;  // %h, %p and %% still in it
  int seconds = kStatsSecondsUsual;
};

// None: not of that form. What follows the last colon behind the last slash is the seconds, so a
// name with a colon needs them.
std::optional<StatsTarget> read_stats_target(std::string_view text);

// The file's name with the process's own host and number in it.
std::string stats_file_name(std::string_view file, std::string_view host, int process);

}  // namespace mesh

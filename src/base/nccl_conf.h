#pragma once
// The files from which NCCL takes settings at its start. A variable that is set, also to an empty
// text, keeps its value; otherwise the first file that has it counts. NCCL does this before it
// loads a plugin, so only the tools need it. Thread: any. Bound: kConfBytesMax for each file.

#include "src/base/config.h"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mesh {

inline constexpr std::size_t kConfBytesMax = std::size_t{1} << 20;

// Returns the files in the order in which they count: that of NCCL_CONF_FILE or else the user's
// own, then the host's.
std::vector<std::string> nccl_conf_files(const Environment& environment);

// Returns name and value of a line; no value for a comment and for a line without "=".
std::optional<std::pair<std::string, std::string>> read_conf_line(std::string_view line);

// Returns the environment with what the files add to it. If `files` is not null, it gets the name
// of each added variable with the file that has it.
Environment with_nccl_conf(Environment environment, Environment* files = nullptr);

// Returns the lines of describe_settings() with the file, not the environment, as the origin of
// each variable in `files`.
std::string describe_settings(const Settings& settings, const Environment& environment,
                              const Environment& files);

}  // namespace mesh

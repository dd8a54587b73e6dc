#pragma once
// Reads, validates, prints and documents the settings, all from one table (settings_table.cc).
// config.cc is the project's only reader of the environment. Thread: any. Bound: one pass over the
// environment at start-up.

#include <mesh/config.h>
#include <mesh/status.h>

#include "src/base/log.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace mesh {

using Environment = std::map<std::string, std::string>;

Environment process_environment();

// Reads the settings. An empty value counts as unset. Returns InvalidArgument if one or more values
// of NCCL_MESH_* variables are unusable; each of them gets a WARN line with setting, value and
// range. A variable of NCCL's own never makes it fail; one that is not taken as it is written gets
// such a line too. An unknown variable NCCL_MESH_* gets one WARN line with the nearest known name,
// and is ignored.
Result<Settings> load_settings();
Result<Settings> load_settings(const Environment& environment);

// Returns true if the environment asks for one-shot all-reduce: NCCL_MESH_ONESHOT_BYTES has a value
// other than 0. Logs nothing, because NCCL looks for the tables that depend on it before it has
// given a logger; load_settings() refuses a value that cannot be used.
bool one_shot_asked() noexcept;
bool one_shot_asked(const Environment& environment) noexcept;

// Returns one line for each setting, joined by newlines: its value, and if that is not the default,
// the default and the variable that set it.
std::string describe_settings(const Settings& settings);
std::string describe_settings(const Settings& settings, const Environment& environment);
// Logs one INFO line with the settings that differ from their defaults, and a TRACE line for each
// setting.
void log_settings(const Settings& settings);
void log_settings(const Settings& settings, const Environment& environment);

// Returns name and value of every setting, in the order of the documentation.
std::vector<std::pair<std::string, std::string>> setting_values(const Settings& settings);

LogLevel log_level_of(const Settings& settings) noexcept;

}  // namespace mesh

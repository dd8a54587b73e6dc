// The settings as text: in the log, and for a person.
#include "src/base/config.h"

#include "src/base/log.h"
#include "src/base/nccl_conf.h"
#include "src/base/setting_value.h"
#include "src/base/settings_table.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

namespace mesh {

std::string describe_settings(const Settings& settings) {
  return describe_settings(settings, process_environment());
}

namespace {
// One setting with its unit. If it differs from its default: also the default, and what set it.
struct Description {
  std::string text;
  bool differs = false;
};

// The variables, and the files that have set some of them.
struct Origins {
  const Environment& environment;
  const Environment& files;
};

// Returns what has set a setting that differs from its default.
std::string origin(const Setting& setting, const Origins& origins) {
  const Environment::value_type* variable = deciding(setting, origins.environment);
  if (variable == nullptr) return "set by the program";
  const auto file = origins.files.find(variable->first);
  const std::string place = file == origins.files.end() ? "the environment" : file->second;
  if (variable->first == setting.name) return "from " + place;
  return fmt::format("from {} in {}", variable->first, place);
}

// Returns true if the log names the setting when it differs from its default. NCCL logs its own
// variables that choose networks, and the others say where the process runs and what it prints.
bool is_logged(const Setting& setting) {
  constexpr std::array<std::string_view, 4> kPlaces{"NCCL_MESH_FABRIC", "NCCL_MESH_HOST",
                                                    "NCCL_MESH_LOG", "NCCL_MESH_STATS"};
  const std::string_view name = setting.name;
  if (std::find(kPlaces.begin(), kPlaces.end(), name) != kPlaces.end()) return false;
  return name.starts_with("NCCL_MESH_") || name.starts_with("NCCL_IB_");
}

Description describe(const Setting& setting, const Settings& settings, const Origins& origins) {
  const std::string value = value_text(setting, settings);
  const std::string usual = value_text(setting, Settings{});
  Description description{fmt::format("{} {}", setting.name, value), value != usual};
  if (setting.unit[0] != '\0' && value != "auto")
    description.text += fmt::format(" {}", setting.unit);
  if (!description.differs) return description;
  description.text += fmt::format(" (default {}, {})", usual, origin(setting, origins));
  return description;
}
}  // namespace

std::string describe_settings(const Settings& settings, const Environment& environment) {
  return describe_settings(settings, environment, {});
}

std::string describe_settings(const Settings& settings, const Environment& environment,
                              const Environment& files) {
  std::string text;
  for (const Setting& setting : settings_table()) {
    if (!text.empty()) text += '\n';
    text += describe(setting, settings, {environment, files}).text;
  }
  return text;
}

void log_settings(const Settings& settings, const Environment& environment) {
  std::vector<std::string> differing;
  for (const Setting& setting : settings_table()) {
    const Description description = describe(setting, settings, {environment, {}});
    LOG_TRACE("setting {}", description.text);
    if (!description.differs || !is_logged(setting)) continue;
    const std::string usual = value_text(setting, Settings{});
    differing.push_back(
        fmt::format("{} {} (default {})", setting.name, value_text(setting, settings), usual));
  }
  for (const std::string& line : log_lines("settings: ", differing)) LOG_INFO("{}", line);
}

void log_settings(const Settings& settings) { log_settings(settings, process_environment()); }

std::vector<std::pair<std::string, std::string>> setting_values(const Settings& settings) {
  std::vector<std::pair<std::string, std::string>> values;
  for (const Setting& setting : settings_table())
    values.emplace_back(setting.name, value_text(setting, settings));
  return values;
}

}  // namespace mesh

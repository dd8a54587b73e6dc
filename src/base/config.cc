#include "src/base/config.h"

#include "src/base/log_time.h"
#include "src/base/nccl_names.h"
#include "src/base/nccl_table.h"
#include "src/base/setting_grammar.h"
#include "src/base/setting_value.h"
#include "src/base/settings_table.h"

#include <algorithm>
#include <exception>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include <unistd.h>

namespace mesh {

namespace {

constexpr const char* kProfileSetting = "NCCL_MESH_PROFILE";
constexpr const char* kProfileNow =
    "has no effect any more; `mesh_tune -o FILE` measures and writes lines for NCCL's ~/.nccl.conf "
    "or /etc/nccl.conf";

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t changed = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({changed, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

// Returns how many letters a typing error may change in the part of a name behind its prefix.
std::size_t errors_max_of(std::string_view name, std::string_view prefix) {
  constexpr std::size_t kLettersPerError = 3;
  return (name.size() - prefix.size() + kLettersPerError - 1) / kLettersPerError;
}

std::string nearest_to(const std::string& name, std::span<const std::string_view> known) {
  std::string_view nearest = known.front();
  std::size_t least = edit_distance(name, nearest);
  for (const std::string_view each : known) {
    // At least as many letters differ.
    if (std::max(each.size(), name.size()) - std::min(each.size(), name.size()) >= least) continue;
    const std::size_t distance = edit_distance(name, each);
    if (distance < least) nearest = each;
    least = std::min(least, distance);
  }
  return std::string(nearest);
}

std::vector<std::string_view> own_names() {
  std::vector<std::string_view> names;
  for (const Setting& setting : settings_table()) names.emplace_back(setting.name);
  return names;
}

// A newer NCCL may have settings that nobody here knows: a name counts as misspelt only if it
// differs from a known one by one or two letters.
std::string why_misspelt(const std::string& name) {
  constexpr std::size_t kErrorsMax = 2;
  for (const std::string_view prefix : {"NCCL_IB_", "NCCL_NET_", "NCCL_SOCKET_"}) {
    if (!name.starts_with(prefix)) continue;
    const std::string nearest = nearest_to(name, nccl_network_names());
    const std::size_t errors = edit_distance(name, nearest);
    if (errors == 0 || errors > std::min(kErrorsMax, errors_max_of(name, prefix))) return {};
    return fmt::format("is not a setting that NCCL is known to have; the nearest is {}", nearest);
  }
  return {};
}

void warn_of_unknown(const Environment& environment) {
  for (auto entry = environment.lower_bound("NCCL_"); entry != environment.end(); ++entry) {
    if (!entry->first.starts_with("NCCL_")) break;
    const std::string why = why_unknown(entry->first);
    if (!why.empty()) LOG_WARN("{} {}", entry->first, why);
  }
}

// Measured settings were once a file of our own. Tells once that such a file has no effect: that of
// NCCL_MESH_PROFILE, which is an unknown setting now, or else one at a place where it was found.
void warn_of_profile(const Environment& environment) {
  if (environment.contains(kProfileSetting)) return;
  const auto path_in = [&](const char* variable) {
    const auto entry = environment.find(variable);
    return entry == environment.end() ? std::string() : entry->second;
  };
  std::string own = path_in("XDG_CONFIG_HOME");
  if (!own.starts_with('/')) own = path_in("HOME") + "/.config";
  for (const std::string& folder : {own, std::string("/etc")}) {
    const std::string file = folder + "/nccl-mesh/profile.json";
    if (::access(file.c_str(), F_OK) == 0) LOG_WARN("{} {}", file, kProfileNow);
  }
}

bool contradictory(const Settings& settings) {
  if (settings.inflight_bytes == kAuto || settings.inflight_bytes >= settings.wr_bytes)
    return false;
  LOG_WARN(
      "NCCL_MESH_INFLIGHT_BYTES {} is below NCCL_MESH_WR_BYTES {}: nothing could be sent; lower "
      "the second or raise the first",
      settings.inflight_bytes, settings.wr_bytes);
  return true;
}

// Ignores a range of another address family, as NCCL does (its function envIbAddrRange).
void drop_range_of_other_family(Settings& settings) {
  const std::optional<AddressRange> range = read_address_range(settings.addr_range);
  if (!range || settings.addr_family.empty()) return;
  if ((range->base.family == AF_INET) == (settings.addr_family == "AF_INET")) return;
  LOG_WARN("NCCL_IB_ADDR_RANGE: '{}' has no address of NCCL_IB_ADDR_FAMILY {}; it counts as unset",
           settings.addr_range, settings.addr_family);
  settings.addr_range.clear();
}

}  // namespace

std::string why_unknown(const std::string& name) {
  constexpr std::string_view kPrefix = "NCCL_MESH_";
  if (name == kProfileSetting) return kProfileNow;
  if (!name.starts_with(kPrefix)) return why_misspelt(name);
  const std::string nearest = nearest_to(name, own_names());
  if (name == nearest) return {};
  return fmt::format("is not a setting and has no effect; {}",
                     edit_distance(name, nearest) <= errors_max_of(name, kPrefix)
                         ? fmt::format("the nearest is {}", nearest)
                         : "`mesh_settings` lists all settings");
}

Environment process_environment() {
  Environment environment;
  if (::environ == nullptr) return environment;
  for (char** entry = ::environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::size_t equals = text.find('=');
    if (equals != std::string_view::npos)
      environment.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return environment;
}

Result<Settings> load_settings() { return load_settings(process_environment()); }

Result<Settings> load_settings(const Environment& environment) {
  Settings settings;
  bool usable = true;
  for (const Setting& setting : settings_table()) {
    const Environment::value_type* variable = deciding(setting, environment);
    if (variable == nullptr) continue;
    const Taken taken = take_value(setting, *variable, settings);
    if (taken == Taken::Given) settings.given.emplace_back(setting.name);
    if (taken == Taken::Unusable) usable = false;
  }
  drop_range_of_other_family(settings);
  warn_of_profile(environment);
  warn_of_unknown(environment);
  if (!usable || contradictory(settings)) return Errc::InvalidArgument;
  return settings;
}

bool one_shot_asked() noexcept {
  try {
    return one_shot_asked(process_environment());
  } catch (const std::exception&) {
    return false;
  }
}

bool one_shot_asked(const Environment& environment) noexcept {
  const auto entry = environment.find("NCCL_MESH_ONESHOT_BYTES");
  return entry != environment.end() &&
         entry->second.find_first_of("123456789abcdefABCDEF") != std::string::npos;
}

namespace {
constexpr std::string_view kTime = "+time";
}  // namespace

bool wants_log_times(const Settings& settings) noexcept {
  return std::string_view(settings.log_level).ends_with(kTime);
}

LogLevel log_level_of(const Settings& settings) noexcept {
  std::string_view level = settings.log_level;
  if (wants_log_times(settings)) level.remove_suffix(kTime.size());
  if (level == "none") return LogLevel::None;
  if (level == "warn") return LogLevel::Warn;
  if (level == "detail") return LogLevel::Detail;
  if (level == "trace") return LogLevel::Trace;
  return LogLevel::Info;
}

}  // namespace mesh

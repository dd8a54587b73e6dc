#include "src/base/config.h"

#include "src/base/settings_table.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include <unistd.h>

namespace mesh {

namespace {

template <typename... Visitors>
struct Overloaded : Visitors... {
  using Visitors::operator()...;
};
template <typename... Visitors>
Overloaded(Visitors...) -> Overloaded<Visitors...>;  // clang 14 does not deduce it for aggregates

// Reads the whole text as decimal or 0x hexadecimal. NCCL's own parameters accept both.
std::optional<std::int64_t> parse_integer(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative) text.remove_prefix(1);
  int base = 10;
  if (text.starts_with("0x") || text.starts_with("0X")) {
    text.remove_prefix(2);
    base = 16;
  }
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc{} || end != text.data() + text.size() || value < 0) return std::nullopt;
  return negative ? -value : value;
}

// As parse_integer, but one of K, M, G may follow.
std::optional<std::int64_t> parse_bytes(std::string_view text) {
  std::int64_t unit = 1;
  if (!text.empty() && !text.starts_with("0x") && !text.starts_with("0X")) {
    switch (text.back()) {
      case 'k':
      case 'K': unit = kKiB; break;
      case 'm':
      case 'M': unit = kMiB; break;
      case 'g':
      case 'G': unit = kGiB; break;
    }
  }
  if (unit != 1) text.remove_suffix(1);
  const std::optional<std::int64_t> count = parse_integer(text);
  if (!count || *count > INT64_MAX / unit || *count < 0) return std::nullopt;
  return *count * unit;
}

std::string bytes_text(std::int64_t value) {
  if (value >= kGiB && value % kGiB == 0) return fmt::format("{}G", value / kGiB);
  if (value >= kMiB && value % kMiB == 0) return fmt::format("{}M", value / kMiB);
  if (value >= kKiB && value % kKiB == 0) return fmt::format("{}K", value / kKiB);
  return fmt::format("{}", value);
}

const char* extra_text(Extra extra) {
  switch (extra) {
    case Extra::None: return "";
    case Extra::Auto: return " or auto";
    case Extra::PowerOfTwo: return ", a power of two";
    case Extra::Multiple128: return ", a multiple of 128";
  }
  return "";
}

std::string range_text(const Setting& setting) {
  return std::visit(Overloaded{[](const IntField& field) {
                                 return fmt::format("{}..{}{}", field.min, field.max,
                                                    extra_text(field.extra));
                               },
                               [](const BytesField& field) {
                                 return fmt::format("{}..{}{}", bytes_text(field.min),
                                                    bytes_text(field.max), extra_text(field.extra));
                               },
                               [](const TextField& field) { return std::string(field.range); }},
                    setting.field);
}

template <typename Field>
bool is_auto(const Field& field, std::int64_t value) {
  return field.extra == Extra::Auto && value == kAuto;
}

std::string value_text(const Setting& setting, const Settings& settings) {
  return std::visit(Overloaded{[&](const IntField& field) {
                                 const int value = settings.*field.member;
                                 return is_auto(field, value) ? "auto" : fmt::format("{}", value);
                               },
                               [&](const BytesField& field) {
                                 const std::int64_t value = settings.*field.member;
                                 return is_auto(field, value) ? "auto" : bytes_text(value);
                               },
                               [&](const TextField& field) {
                                 const std::string& value = settings.*field.member;
                                 return value.empty() ? std::string("unset") : value;
                               }},
                    setting.field);
}

template <typename Field>
bool in_range(const Field& field, std::int64_t value) {
  if (value < field.min || value > field.max) return false;
  switch (field.extra) {
    case Extra::None:
    case Extra::Auto: return true;
    case Extra::PowerOfTwo: return std::has_single_bit(static_cast<std::uint64_t>(value));
    case Extra::Multiple128: return value % 128 == 0;
  }
  return false;
}

// False: the text is unusable, and the settings are untouched.
bool assign(const Setting& setting, const std::string& text, Settings& settings) {
  return std::visit(
      Overloaded{[&](const IntField& field) {
                   if (field.extra == Extra::Auto && (text == "auto" || text == "-1")) {
                     settings.*field.member = kAuto;
                     return true;
                   }
                   const std::optional<std::int64_t> value = parse_integer(text);
                   if (!value || !in_range(field, *value)) return false;
                   settings.*field.member = static_cast<int>(*value);
                   return true;
                 },
                 [&](const BytesField& field) {
                   if (field.extra == Extra::Auto && (text == "auto" || text == "-1")) {
                     settings.*field.member = kAuto;
                     return true;
                   }
                   const std::optional<std::int64_t> value = parse_bytes(text);
                   if (!value || !in_range(field, *value)) return false;
                   settings.*field.member = *value;
                   return true;
                 },
                 [&](const TextField& field) {
                   if (!field.accepts(text)) return false;
                   settings.*field.member = text;
                   return true;
                 }},
      setting.field);
}

// The variable that decides a setting. Null: none is set.
const Environment::value_type* deciding(const Setting& setting, const Environment& environment) {
  for (const char* name : {setting.name, setting.fallback}) {
    if (name == nullptr) continue;
    const auto entry = environment.find(name);
    if (entry != environment.end() && !entry->second.empty()) return &*entry;
  }
  return nullptr;
}

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

void warn_of_unknown(const Environment& environment) {
  const std::span<const Setting> table = settings_table();
  for (auto entry = environment.lower_bound("NCCL_MESH_"); entry != environment.end(); ++entry) {
    const std::string& name = entry->first;
    if (!name.starts_with("NCCL_MESH_")) break;
    if (std::any_of(table.begin(), table.end(),
                    [&](const Setting& setting) { return name == setting.name; }))
      continue;
    const auto nearest =
        std::min_element(table.begin(), table.end(), [&](const Setting& a, const Setting& b) {
          return edit_distance(name, a.name) < edit_distance(name, b.name);
        });
    LOG_WARN("{} is not a setting and has no effect; the nearest is {}", name, nearest->name);
  }
}

// A user's own profile comes before the host's. By XDG's rules a relative path counts as unset.
std::vector<std::string> profile_places(const Environment& environment) {
  constexpr const char* kName = "/nccl-mesh/profile.json";
  const auto path_in = [&](const char* variable) {
    const auto entry = environment.find(variable);
    return entry != environment.end() && entry->second.starts_with('/') ? entry->second
                                                                        : std::string();
  };
  std::string own = path_in("XDG_CONFIG_HOME");
  if (own.empty() && !path_in("HOME").empty()) own = path_in("HOME") + "/.config";
  std::vector<std::string> places;
  if (!own.empty()) places.push_back(own + kName);
  places.push_back(std::string("/etc") + kName);
  return places;
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

}  // namespace

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
    settings.given.emplace_back(setting.name);
    if (assign(setting, variable->second, settings)) continue;
    usable = false;
    LOG_WARN("{}: '{}' is not usable; wanted: {}", variable->first, variable->second,
             range_text(setting));
  }
  settings.profile_places = profile_places(environment);
  warn_of_unknown(environment);
  if (!usable || contradictory(settings)) return Errc::InvalidArgument;
  return settings;
}

std::string describe_settings(const Settings& settings) {
  return describe_settings(settings, process_environment());
}

namespace {
// One setting with its unit; where it differs from its default, with that and with who set it.
struct Description {
  std::string text;
  bool differs = false;
};

std::string origin(const Setting& setting, const Environment& environment) {
  const Environment::value_type* variable = deciding(setting, environment);
  if (variable == nullptr) return "set by the program";
  if (variable->first == setting.name) return "from the environment";
  return fmt::format("from {} in the environment", variable->first);
}

Description describe(const Setting& setting, const Settings& settings,
                     const Environment& environment) {
  const std::string value = value_text(setting, settings);
  const std::string usual = value_text(setting, Settings{});
  Description description{fmt::format("{} {}", setting.name, value), value != usual};
  if (setting.unit[0] != '\0' && value != "auto")
    description.text += fmt::format(" {}", setting.unit);
  if (!description.differs) return description;
  description.text += fmt::format(" (default {}, {})", usual, origin(setting, environment));
  return description;
}
}  // namespace

std::string describe_settings(const Settings& settings, const Environment& environment) {
  std::string text;
  for (const Setting& setting : settings_table()) {
    if (!text.empty()) text += '\n';
    text += describe(setting, settings, environment).text;
  }
  return text;
}

void log_settings(const Settings& settings, const Environment& environment) {
  std::string differing;
  for (const Setting& setting : settings_table()) {
    const Description description = describe(setting, settings, environment);
    LOG_TRACE("setting {}", description.text);
    if (!description.differs) continue;
    if (!differing.empty()) differing += ", ";
    differing += description.text;
  }
  LOG_INFO("settings: {}", differing.empty() ? "all at their defaults" : differing);
}

void log_settings(const Settings& settings) { log_settings(settings, process_environment()); }

std::string settings_markdown() {
  const Settings defaults;
  std::string text = "| variable | default | range | meaning |\n|---|---|---|---|\n";
  for (const Setting& setting : settings_table()) {
    const std::string unit = setting.unit[0] == '\0' ? "" : fmt::format(" ({})", setting.unit);
    const std::string fallback =
        setting.fallback == nullptr ? "" : fmt::format(" Unset: `{}`.", setting.fallback);
    text +=
        fmt::format("| `{}` | {} | {}{} | {}{} |\n", setting.name, value_text(setting, defaults),
                    range_text(setting), unit, setting.doc, fallback);
  }
  return text;
}

LogLevel log_level_of(const Settings& settings) noexcept {
  if (settings.log_level == "none") return LogLevel::None;
  if (settings.log_level == "warn") return LogLevel::Warn;
  if (settings.log_level == "detail") return LogLevel::Detail;
  if (settings.log_level == "trace") return LogLevel::Trace;
  return LogLevel::Info;
}

}  // namespace mesh

#include "src/base/config.h"

#include "src/base/cpu_list.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>
#include <variant>
#include <vector>

#include <unistd.h>

namespace mesh {

namespace {

enum class Extra : std::uint8_t { None, Auto, PowerOfTwo, Multiple128 };

struct IntField {
  int Settings::*member;
  int min;
  int max;
  Extra extra = Extra::None;
};
struct BytesField {
  std::int64_t Settings::*member;
  std::int64_t min;
  std::int64_t max;
  Extra extra = Extra::None;
};
struct TextField {
  std::string Settings::*member;
  bool (*accepts)(std::string_view);
  const char* range;
};

struct Setting {
  const char* name;
  const char* unit;  // empty: none
  std::variant<IntField, BytesField, TextField> field;
  const char* doc;
  const char* fallback = nullptr;  // another variable, used when name is unset
};

constexpr std::int64_t kKiB = 1024;
constexpr std::int64_t kMiB = 1024 * kKiB;
constexpr std::int64_t kGiB = 1024 * kMiB;
constexpr std::size_t kTextMax = 1024;

bool any_text(std::string_view text) { return text.size() <= kTextMax; }
bool host_text(std::string_view text) { return text.size() <= 255 && text.find_first_of(" \t\n/") == std::string_view::npos; }
bool fabric_text(std::string_view text) {
  return text == "rdma" || (text.starts_with("soft:") && text.size() > 5 && text.size() <= kTextMax);
}
bool copy_text(std::string_view text) { return text == "auto" || text == "cma" || text == "cells"; }
bool family_text(std::string_view text) { return text == "AF_INET" || text == "AF_INET6"; }
bool cpus_text(std::string_view text) { return read_cpu_list(text).has_value(); }
bool level_text(std::string_view text) { return text == "none" || text == "warn" || text == "info" || text == "trace"; }

// The one table. Defaults are those of Settings.
constexpr std::array kTable{
    Setting{
        "NCCL_MESH_QPS", "queue pairs", IntField{&Settings::qps, 1, 32, Extra::Auto},
        "Bulk queue pairs per path; one more carries small messages. auto: 4, or 2 on each PCIe half of a cable; 1 suits a clean "
        "direct cable, more help on LAG and ECMP.",
        "NCCL_IB_QPS_PER_CONNECTION"},
    Setting{"NCCL_MESH_SIGNAL_INTERVAL", "work requests", IntField{&Settings::signal_interval, 1, 64},
            "Within a doorbell chain every n-th work request asks for a completion."},
    Setting{"NCCL_MESH_THREADS", "threads per NIC", IntField{&Settings::threads, 0, 8, Extra::Auto},
            "Pinned poller threads; 0: NCCL's own threads turn the loops; auto: 1 from 8 usable cores on or with NCCL_MESH_CPUS, "
            "else 0."},
    Setting{"NCCL_MESH_INLINE", "bytes", IntField{&Settings::inline_bytes, 0, 512, Extra::Auto},
            "Largest message written inline; auto: what the device grants, up to 220."},
    Setting{"NCCL_MESH_SLOTS", "requests", IntField{&Settings::slots, 32, 256, Extra::PowerOfTwo},
            "Requests in flight per channel."},
    Setting{"NCCL_MESH_RQ_DEPTH", "announcements", IntField{&Settings::rq_depth, 16, 4096, Extra::PowerOfTwo},
            "Announcements outstanding per queue pair."},
    Setting{"NCCL_MESH_SQ_DEPTH", "work requests", IntField{&Settings::sq_depth, 64, 4096, Extra::PowerOfTwo},
            "Work requests outstanding per queue pair."},
    Setting{"NCCL_MESH_EXPRESS_BYTES", "bytes", BytesField{&Settings::express_bytes, 0, kMiB},
            "Largest message that takes the small-message queue pair."},
    Setting{"NCCL_MESH_STRIPE_BYTES", "bytes", BytesField{&Settings::stripe_bytes, 128, kGiB, Extra::Multiple128},
            "Smallest stripe; a message up to this size stays on one queue pair."},
    Setting{"NCCL_MESH_WR_BYTES", "bytes", BytesField{&Settings::wr_bytes, 4 * kKiB, kGiB, Extra::Multiple128},
            "Largest work request; larger stripes are cut."},
    Setting{"NCCL_MESH_INFLIGHT_BYTES", "bytes", BytesField{&Settings::inflight_bytes, 64 * kKiB, 64 * kGiB, Extra::Auto},
            "Bytes in flight per path, at least NCCL_MESH_WR_BYTES; auto: what the port carries in 4 ms, 8M at most."},
    Setting{"NCCL_MESH_PROFILE", "", TextField{&Settings::profile, any_text, "a file, or none"},
            "Measured settings, written by mesh_tune; what is set here goes before them. Unset: the first that is there of "
            "$XDG_CONFIG_HOME (or ~/.config) /nccl-mesh/profile.json and /etc/nccl-mesh/profile.json."},
    Setting{"NCCL_MESH_CPUS", "", TextField{&Settings::cpus, cpus_text, "a list of CPUs such as 2,4-7, each below 8192"},
            "CPUs where poller threads may run; unset: any that this process may use."},
    Setting{"NCCL_MESH_FABRIC", "", TextField{&Settings::fabric, fabric_text, "rdma or soft:FILE"},
            "What lies below: RDMA devices, or the software fabric described by FILE."},
    Setting{"NCCL_MESH_HOST", "", TextField{&Settings::host, host_text, "a host name"},
            "Our name in the fabric file; unset: NCCL_HOSTID if the file knows it, else the first host nobody has claimed."},
    Setting{"NCCL_HOSTID", "", TextField{&Settings::host_id, any_text, "up to 1024 characters"}, "NCCL's name for this host."},
    Setting{"NCCL_MESH_SOFT_COPY", "", TextField{&Settings::soft_copy, copy_text, "auto, cma or cells"},
            "How the software fabric copies between processes."},
    Setting{"NCCL_MESH_PREFIX_LEN", "bits", IntField{&Settings::prefix_len, 1, 128, Extra::Auto},
            "Subnet prefix of rails whose net device is not visible; auto: 24 for IPv4, 64 for IPv6."},
    Setting{
        "NCCL_IB_HCA", "", TextField{&Settings::hca, any_text, "up to 1024 characters"},
        "RDMA devices to use: comma list of name prefixes, each with an optional :port; leading ^ excludes, = compares exactly."},
    Setting{"NCCL_IB_GID_INDEX", "", IntField{&Settings::gid_index, 0, 255, Extra::Auto},
            "GID table index; auto: the RoCE v2 entry with the best address."},
    Setting{"NCCL_SOCKET_IFNAME", "", TextField{&Settings::socket_ifname, any_text, "up to 1024 characters"},
            "Interfaces for the handshake: comma list of name prefixes; leading ^ excludes, = compares exactly."},
    Setting{"NCCL_SOCKET_FAMILY", "", TextField{&Settings::socket_family, family_text, "AF_INET or AF_INET6"},
            "Address family of the handshake; unset: both."},
    Setting{"NCCL_IB_TC", "", IntField{&Settings::traffic_class, 0, 255}, "Traffic class of our packets (DSCP and ECN bits)."},
    Setting{"NCCL_IB_SL", "", IntField{&Settings::service_level, 0, 15}, "Service level of our queue pairs."},
    Setting{"NCCL_IB_TIMEOUT", "", IntField{&Settings::timeout, 1, 31},
            "Acknowledge timer, 4.096 us * 2^n a try; 16 is 0.27 s (NCCL's own transport uses 20, 4.3 s)."},
    Setting{"NCCL_IB_RETRY_CNT", "tries", IntField{&Settings::retry_count, 0, 7},
            "Tries before a path counts as dead; some devices take 7 as for ever."},
    Setting{"NCCL_MESH_LOG", "", TextField{&Settings::log_level, level_text, "none, warn, info or trace"},
            "What goes to standard error when NCCL gives no logger."},
};

template <typename... Visitors>
struct Overloaded : Visitors... {
  using Visitors::operator()...;
};
template <typename... Visitors>
Overloaded(Visitors...) -> Overloaded<Visitors...>;  // clang 14 does not deduce it for aggregates

// Decimal or 0x hexadecimal, whole text. NCCL's own parameters accept both.
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

// As parse_integer, with one of K, M, G behind it.
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
  return std::visit(
      Overloaded{[](const IntField& field) { return fmt::format("{}..{}{}", field.min, field.max, extra_text(field.extra)); },
                 [](const BytesField& field) {
                   return fmt::format("{}..{}{}", bytes_text(field.min), bytes_text(field.max), extra_text(field.extra));
                 },
                 [](const TextField& field) { return std::string(field.range); }},
      setting.field);
}

std::string value_text(const Setting& setting, const Settings& settings) {
  return std::visit(Overloaded{[&](const IntField& field) {
                                 const int value = settings.*field.member;
                                 return field.extra == Extra::Auto && value == kAuto ? std::string("auto")
                                                                                     : fmt::format("{}", value);
                               },
                               [&](const BytesField& field) {
                                 const std::int64_t value = settings.*field.member;
                                 return field.extra == Extra::Auto && value == kAuto ? std::string("auto") : bytes_text(value);
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

// False: unusable, settings untouched.
bool assign(const Setting& setting, const std::string& text, Settings& settings) {
  return std::visit(Overloaded{[&](const IntField& field) {
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

// The variable that decides a setting, or null when none is set.
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
  for (auto entry = environment.lower_bound("NCCL_MESH_"); entry != environment.end(); ++entry) {
    const std::string& name = entry->first;
    if (!name.starts_with("NCCL_MESH_")) break;
    if (std::any_of(kTable.begin(), kTable.end(), [&](const Setting& setting) { return name == setting.name; })) continue;
    const auto nearest = std::min_element(kTable.begin(), kTable.end(), [&](const Setting& a, const Setting& b) {
      return edit_distance(name, a.name) < edit_distance(name, b.name);
    });
    LOG_WARN("{} is not a setting and has no effect; the nearest is {}", name, nearest->name);
  }
}

// A person's own profile goes before the host's. XDG's rules: a relative path there counts as unset.
std::vector<std::string> profile_places(const Environment& environment) {
  constexpr const char* kName = "/nccl-mesh/profile.json";
  const auto path_in = [&](const char* variable) {
    const auto entry = environment.find(variable);
    return entry != environment.end() && entry->second.starts_with('/') ? entry->second : std::string();
  };
  std::string own = path_in("XDG_CONFIG_HOME");
  if (own.empty() && !path_in("HOME").empty()) own = path_in("HOME") + "/.config";
  std::vector<std::string> places;
  if (!own.empty()) places.push_back(own + kName);
  places.push_back(std::string("/etc") + kName);
  return places;
}

bool contradictory(const Settings& settings) {
  if (settings.inflight_bytes == kAuto || settings.inflight_bytes >= settings.wr_bytes) return false;
  LOG_WARN("NCCL_MESH_INFLIGHT_BYTES {} is below NCCL_MESH_WR_BYTES {}: nothing could be sent; lower the second or raise the first",
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
    if (equals != std::string_view::npos) environment.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return environment;
}

Result<Settings> load_settings() { return load_settings(process_environment()); }

Result<Settings> load_settings(const Environment& environment) {
  Settings settings;
  bool usable = true;
  for (const Setting& setting : kTable) {
    const Environment::value_type* variable = deciding(setting, environment);
    if (variable == nullptr) continue;
    settings.given.emplace_back(setting.name);
    if (assign(setting, variable->second, settings)) continue;
    usable = false;
    LOG_WARN("{}: '{}' is not usable; wanted: {}", variable->first, variable->second, range_text(setting));
  }
  settings.profile_places = profile_places(environment);
  warn_of_unknown(environment);
  if (!usable || contradictory(settings)) return Errc::InvalidArgument;
  return settings;
}

std::string describe_settings(const Settings& settings) { return describe_settings(settings, process_environment()); }

std::string describe_settings(const Settings& settings, const Environment& environment) {
  const Settings defaults;
  std::string text;
  for (const Setting& setting : kTable) {
    const std::string value = value_text(setting, settings);
    const std::string usual = value_text(setting, defaults);
    if (!text.empty()) text += '\n';
    text += fmt::format("{} {}", setting.name, value);
    if (setting.unit[0] != '\0' && value != "auto") text += fmt::format(" {}", setting.unit);
    if (value == usual) continue;
    const Environment::value_type* variable = deciding(setting, environment);
    text += fmt::format(" (default {}, {})", usual,
                        variable != nullptr ? fmt::format("from {} in the environment", variable->first) : "set by the program");
  }
  return text;
}

void log_settings(const Settings& settings) {
  const std::string text = describe_settings(settings);
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    LOG_INFO("setting {}", text.substr(begin, end - begin));
    begin = end + 1;
  }
}

std::string settings_markdown() {
  const Settings defaults;
  std::string text = "| variable | default | range | meaning |\n|---|---|---|---|\n";
  for (const Setting& setting : kTable) {
    const std::string unit = setting.unit[0] == '\0' ? "" : fmt::format(" ({})", setting.unit);
    const std::string fallback = setting.fallback == nullptr ? "" : fmt::format(" Unset: `{}`.", setting.fallback);
    text += fmt::format("| `{}` | {} | {}{} | {}{} |\n", setting.name, value_text(setting, defaults), range_text(setting), unit,
                        setting.doc, fallback);
  }
  return text;
}

LogLevel log_level_of(const Settings& settings) noexcept {
  if (settings.log_level == "none") return LogLevel::None;
  if (settings.log_level == "warn") return LogLevel::Warn;
  if (settings.log_level == "trace") return LogLevel::Trace;
  return LogLevel::Info;
}

}  // namespace mesh

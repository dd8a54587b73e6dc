#include "perf/driver/log_filter.h"

#include "perf/driver/world.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string>
#include <utility>

namespace mesh::driver {
namespace {

// The names in the order of their bits.
constexpr std::array<std::string_view, 16> kSubsystems = {
    "INIT",  "COLL", "P2P",   "SHM",  "NET",       "GRAPH", "TUNING",  "ENV",
    "ALLOC", "CALL", "PROXY", "NVLS", "BOOTSTRAP", "REG",   "PROFILE", "RAS"};

constexpr std::array<std::pair<std::string_view, ncclDebugLogLevel>, 5> kLevels = {{
    {"VERSION", NCCL_LOG_VERSION},
    {"WARN", NCCL_LOG_WARN},
    {"INFO", NCCL_LOG_INFO},
    {"ABORT", NCCL_LOG_ABORT},
    {"TRACE", NCCL_LOG_TRACE},
}};

std::string upper(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::toupper(letter)); });
  return result;
}

unsigned long bit_of(std::string_view name) {
  const std::string wanted = upper(name);
  if (wanted == "ALL") return NCCL_ALL;
  const auto found = std::find(kSubsystems.begin(), kSubsystems.end(), wanted);
  return found == kSubsystems.end() ? 0 : 1ul << (found - kSubsystems.begin());
}

}  // namespace

unsigned long subsystems_of(std::string_view list) {
  const bool all_but = list.starts_with('^');
  if (all_but) list.remove_prefix(1);
  unsigned long named = 0;
  while (!list.empty()) {
    const std::size_t comma = std::min(list.find(','), list.size());
    named |= bit_of(list.substr(0, comma));
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return all_but ? ~named : named;
}

LogFilter LogFilter::from(const Environment& environment) {
  LogFilter filter;
  const std::string level = upper(variable(environment, "NCCL_DEBUG"));
  for (const auto& [name, value] : kLevels) {
    if (level == name) filter.level = value;
  }
  const std::string list = variable(environment, "NCCL_DEBUG_SUBSYS");
  if (!list.empty()) filter.subsystems = subsystems_of(list);
  return filter;
}

}  // namespace mesh::driver

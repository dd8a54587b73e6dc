#include "perf/driver/log_filter.h"

#include "perf/driver/world.h"

#include <strings.h>

#include <algorithm>
#include <array>
#include <sstream>
#include <string>
#include <utility>

namespace mesh::driver {
namespace {

// The names in the order of their bits.
constexpr std::array<const char*, 16> kSubsystems = {
    "INIT",  "COLL", "P2P",   "SHM",  "NET",       "GRAPH", "TUNING",  "ENV",
    "ALLOC", "CALL", "PROXY", "NVLS", "BOOTSTRAP", "REG",   "PROFILE", "RAS"};

constexpr std::array<std::pair<const char*, ncclDebugLogLevel>, 5> kLevels = {{
    {"VERSION", NCCL_LOG_VERSION},
    {"WARN", NCCL_LOG_WARN},
    {"INFO", NCCL_LOG_INFO},
    {"ABORT", NCCL_LOG_ABORT},
    {"TRACE", NCCL_LOG_TRACE},
}};

bool same(const std::string& one, const char* other) {
  return ::strcasecmp(one.c_str(), other) == 0;
}

unsigned long bit_of(const std::string& name) {
  if (same(name, "ALL")) return NCCL_ALL;
  const auto found = std::find_if(kSubsystems.begin(), kSubsystems.end(),
                                  [&](const char* each) { return same(name, each); });
  return found == kSubsystems.end() ? 0 : 1ul << (found - kSubsystems.begin());
}

}  // namespace

unsigned long subsystems_of(std::string_view list) {
  const bool all_but = list.starts_with('^');
  if (all_but) list.remove_prefix(1);
  unsigned long named = 0;
  std::istringstream names{std::string(list)};
  for (std::string name; std::getline(names, name, ',');) named |= bit_of(name);
  return all_but ? ~named : named;
}

LogFilter LogFilter::from(const Environment& environment) {
  LogFilter filter;
  const std::string level = variable(environment, "NCCL_DEBUG");
  for (const auto& [name, value] : kLevels) {
    if (same(level, name)) filter.level = value;
  }
  const std::string list = variable(environment, "NCCL_DEBUG_SUBSYS");
  if (!list.empty()) filter.subsystems = subsystems_of(list);
  return filter;
}

}  // namespace mesh::driver

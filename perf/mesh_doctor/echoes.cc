#include "perf/mesh_doctor/echoes.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace mesh::doctor {
namespace {

struct Echo {
  std::string_view between, cause;
};
constexpr std::array kEchoes{
    Echo{"half-missing", "half-gone"},
    Echo{"half-missing", "half-unused"},
    Echo{"mtu-differs", "mtu-small"},
    Echo{"mtu-differs", "mtu-not-taken"},
    Echo{"handshake-network", "interface-names-none"},
};

bool concerns(const Finding& between, const std::string& host) {
  return between.host.starts_with(host + " and ") || between.host.ends_with(" and " + host);
}

}  // namespace

std::vector<Finding> without_echoes(std::vector<Finding> between, const std::vector<Finding>& own) {
  const auto is_echo = [&own](const Finding& each) {
    return std::any_of(own.begin(), own.end(), [&each](const Finding& cause) {
      const auto pairs = [&](const Echo& echo) {
        return echo.between == each.name && echo.cause == cause.name;
      };
      return concerns(each, cause.host) && std::any_of(kEchoes.begin(), kEchoes.end(), pairs);
    });
  };
  std::erase_if(between, is_echo);
  return between;
}

}  // namespace mesh::doctor

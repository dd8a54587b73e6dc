#include "perf/mesh_perf/ceiling.h"

#include "src/soft/fabric_file.h"
#include "src/soft/goodput.h"

#include <algorithm>

namespace mesh::perf {
namespace {

// Returns the indices by rank; empty if some name is not in the file.
std::vector<int> places(const soft::FabricFile& file, const std::vector<std::string>& hosts) {
  std::vector<int> found;
  for (const std::string& host : hosts) {
    found.push_back(file.find_host(host));
    if (found.back() < 0) return {};
  }
  for (std::size_t i = 0; hosts.empty() && i < file.hosts.size(); ++i)
    found.push_back(static_cast<int>(i));
  return found;
}

}  // namespace

std::optional<double> link_ceiling(const std::string& fabric_file,
                                   const std::vector<std::string>& hosts, Kind kind) {
  const auto file = soft::load(fabric_file);
  if (!file.ok()) return std::nullopt;
  const std::vector<int> ranks = places(*file, hosts);
  // With more than two hosts an all-to-all shares links in a way that no single link bounds.
  if (ranks.size() < 2 || (kind == Kind::AllToAll && ranks.size() > 2)) return std::nullopt;
  std::optional<double> least;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const std::optional<double> rate =
        soft::goodput_gbytes_per_s(*file, {ranks[rank], ranks[(rank + 1) % ranks.size()]});
    if (!rate.has_value()) return std::nullopt;
    least = least.has_value() ? std::min(*least, *rate) : *rate;
  }
  return least;
}

}  // namespace mesh::perf

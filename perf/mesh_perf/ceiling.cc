#include "perf/mesh_perf/ceiling.h"

#include "src/soft/fabric_file.h"
#include "src/soft/wire_model.h"

#include <algorithm>

namespace mesh::perf {
namespace {

// Ends of the link at this host: on a switch each of its ports carries the rate.
std::size_t ends_at(const soft::LinkSpec& link, int host) {
  const auto count = std::count_if(link.ends.begin(), link.ends.end(), [&](const soft::NicRef& end) { return end.host == host; });
  return static_cast<std::size_t>(count);
}

struct HostPair {
  int from = 0, to = 0;
};

std::optional<double> between(const soft::FabricFile& file, const HostPair& pair) {
  double sum = 0;
  for (const soft::LinkSpec& link : file.links) {
    const std::size_t width = std::min(ends_at(link, pair.from), ends_at(link, pair.to));
    if (width == 0) continue;
    if (link.gbps == 0) return std::nullopt;
    const double mtu = link.mtu;
    sum += static_cast<double>(width) * link.gbps / 8 * mtu / (mtu + static_cast<double>(soft::kPacketOverheadBytes));
  }
  return sum > 0 ? std::optional(sum) : std::nullopt;
}

// Indices by rank; empty: some name is not in the file.
std::vector<int> places(const soft::FabricFile& file, const std::vector<std::string>& hosts) {
  std::vector<int> found;
  for (const std::string& host : hosts) {
    found.push_back(file.find_host(host));
    if (found.back() < 0) return {};
  }
  for (std::size_t i = 0; hosts.empty() && i < file.hosts.size(); ++i) found.push_back(static_cast<int>(i));
  return found;
}

}  // namespace

std::optional<double> link_ceiling(const std::string& fabric_file, const std::vector<std::string>& hosts, Kind kind) {
  const auto file = soft::load(fabric_file);
  if (!file.ok()) return std::nullopt;
  const std::vector<int> ranks = places(*file, hosts);
  // Between more than two, an all-to-all shares links in a way that no single one bounds.
  if (ranks.size() < 2 || (kind == Kind::AllToAll && ranks.size() > 2)) return std::nullopt;
  std::optional<double> least;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const HostPair pair{ranks[rank], ranks[(rank + 1) % ranks.size()]};
    const std::optional<double> rate = between(*file, pair);
    if (!rate.has_value()) return std::nullopt;
    least = least.has_value() ? std::min(*least, *rate) : *rate;
  }
  return least;
}

}  // namespace mesh::perf

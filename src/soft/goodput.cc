#include "src/soft/fabric_file.h"

#include "src/soft/wire_model.h"

#include <algorithm>
#include <map>
#include <string>

namespace mesh::soft {

namespace {

// The ends of a link at one host. On a switch each of the host's ports carries the rate.
struct Ends {
  std::size_t count = 0;
  double gbps = 0;  // the sum of all ends
};

Ends ends_at(const FabricFile& fabric, const LinkSpec& link, int host) {
  Ends ends;
  for (const NicRef& end : link.ends) {
    if (end.host != host) continue;
    const double own =
        fabric.hosts[static_cast<std::size_t>(host)].nics[static_cast<std::size_t>(end.nic)].gbps;
    ++ends.count;
    ends.gbps += own == 0 || link.gbps == 0 ? std::max(own, link.gbps) : std::min(own, link.gbps);
  }
  return ends;
}

struct Cable {
  double gbps = 0, limit_gbps = 0, share = 0;
};

}  // namespace

std::optional<double> goodput_gbytes_per_s(const FabricFile& fabric, const HostPair& pair) {
  std::map<std::string, Cable> cables;
  for (std::size_t i = 0; i < fabric.links.size(); ++i) {
    const LinkSpec& link = fabric.links[i];
    const Ends from = ends_at(fabric, link, pair.from), to = ends_at(fabric, link, pair.to);
    if (from.count == 0 || to.count == 0) continue;
    if (from.gbps == 0 || to.gbps == 0) return std::nullopt;
    Cable& cable = cables[link.cable.empty() ? "link " + std::to_string(i) : "cable " + link.cable];
    cable.gbps += std::min(from.gbps, to.gbps);
    cable.limit_gbps = link.cable.empty() ? cable.gbps : link.gbps;
    cable.share = link.mtu / static_cast<double>(link.mtu + kPacketOverheadBytes);
  }
  double sum = 0;
  for (const auto& [name, cable] : cables)
    sum += std::min(cable.gbps, cable.limit_gbps) / 8 * cable.share;
  return sum > 0 ? std::optional(sum) : std::nullopt;
}

}  // namespace mesh::soft

// Draws cables that move in mid job (--recabled): two plugs of a host, whose cables lead to one
// other host, change places while their four ports are down. All cables are in one subnet, so only
// datagrams tell where they lead then. Seeds whose hosts have one cable each are as they were.

#include "tests/sim/scenario.h"

namespace mesh::sim {
namespace {
constexpr std::uint64_t kRecabledStream = 15;  // of Random
constexpr std::uint64_t kMovesMax = 2;

struct Plugs {
  soft::NicRef one, other;
};

// Returns the pairs of NICs of one host whose cables lead to one other host.
std::vector<Plugs> pairs_of_plugs(const soft::FabricFile& fabric) {
  std::vector<Plugs> pairs;
  for (std::size_t a = 0; a < fabric.links.size(); ++a) {
    for (std::size_t b = a + 1; b < fabric.links.size(); ++b) {
      const auto& one = fabric.links[a].ends;
      const auto& other = fabric.links[b].ends;
      const auto is_cable = [](const soft::LinkSpec& link) {
        return link.ends.size() == 2 && link.routers.empty();
      };
      if (!is_cable(fabric.links[a]) || !is_cable(fabric.links[b])) continue;
      if (one[0].host != other[0].host || one[1].host != other[1].host) continue;
      pairs.push_back({one[0], other[0]});
      pairs.push_back({one[1], other[1]});
    }
  }
  return pairs;
}
}  // namespace

void draw_recabled(Scenario& scenario) {
  Random random(scenario.seed, kRecabledStream);
  const std::vector<Plugs> pairs = pairs_of_plugs(scenario.fabric);
  if (pairs.empty() || scenario.options.level < Level::Faults) return;
  const std::uint64_t count = random.between(1, kMovesMax);
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto& [one, other] = pairs[random.below(pairs.size())];
    FaultPlan fault;
    fault.kind = FaultPlan::Kind::CablesMove;
    fault.at = random.below(scenario.messages() + 1);
    fault.host = static_cast<std::size_t>(one.host);
    fault.nic = scenario.fabric.nic(one).name;
    fault.other_nic = scenario.fabric.nic(other).name;
    fault.duration_ns = random.between(1 * kMs, 200 * kMs);
    scenario.faults.push_back(fault);
  }
  std::stable_sort(scenario.faults.begin(), scenario.faults.end(),
                   [](const FaultPlan& a, const FaultPlan& b) { return a.at < b.at; });
}

}  // namespace mesh::sim

// Draws which device NCCL names, and what may carry besides. One seed in three lets the cable named
// carry alone, while the others stand by; the seed's number decides, so that all else that it draws
// stays as it was.

#include "tests/sim/scenario.h"

namespace mesh::sim {
namespace {
constexpr std::uint64_t kOneInThree = 3, kNamedRemainder = 1;
constexpr std::uint64_t kRailsStream = 6;  // of Random
}  // namespace

void draw_rails(Scenario& scenario) {
  if (scenario.options.standby || scenario.seed % kOneInThree == kNamedRemainder)
    name_cables(scenario);
}

void name_cables(Scenario& scenario) {
  Random random(scenario.seed, kRailsStream);
  scenario.rails = "auto";
  // The channels of one pair of hosts share links, or some of them, or none.
  const std::uint64_t few = random.between(1, 3);
  for (ChannelPlan& channel : scenario.channels) {
    const auto device = [&](std::size_t context) {
      const std::size_t nics = scenario.hosts[scenario.contexts[context].host].nics.size();
      return static_cast<int>(random.below(few) % nics);
    };
    channel.device = device(channel.from);
    channel.listens = device(channel.to);
  }
}

}  // namespace mesh::sim

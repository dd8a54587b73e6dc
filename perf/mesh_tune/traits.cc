#include "perf/mesh_tune/traits.h"

#include "src/verbs/discovery.h"
#include "src/verbs/rail_traits.h"

namespace mesh::tune {

std::optional<FabricTraits> traits_of_rails(verbs::Provider& provider, const Settings& settings) {
  const Result<std::vector<verbs::Rail>> rails = verbs::discover(provider, settings);
  if (!rails.ok()) return std::nullopt;
  return verbs::traits_of(provider.fabric(), *rails);
}

MeasuredOn measured_on(const FabricTraits& traits) {
  return {.label = {},
          .devices = traits.devices,
          .rails = traits.rails,
          .speed_mbps = traits.speed_mbps,
          .mtu = traits.mtu};
}

}  // namespace mesh::tune

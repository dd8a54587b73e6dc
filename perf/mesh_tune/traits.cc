#include "perf/mesh_tune/traits.h"

#include "src/verbs/discovery.h"
#include "src/verbs/rail_traits.h"

namespace mesh::tune {

std::optional<FabricTraits> traits_of_rails(verbs::Provider& provider, const Settings& settings) {
  const Result<std::vector<verbs::Rail>> rails = verbs::discover(provider, settings);
  if (!rails.ok()) return std::nullopt;
  return verbs::traits_of(provider.fabric(), *rails);
}

tuning::Measured measured_on(const FabricTraits& traits) {
  tuning::Measured measured;
  measured.ground = traits.fabric == "rdma" ? tuning::Ground::Rdma : tuning::Ground::Soft;
  measured.devices = traits.devices;
  measured.rails = traits.rails;
  measured.speed_mbps = traits.speed_mbps;
  measured.mtu = traits.mtu;
  return measured;
}

}  // namespace mesh::tune

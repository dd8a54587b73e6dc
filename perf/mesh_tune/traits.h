#pragma once
// The facts that a report has about the rails on which it was taken. Thread: any, while no engine
// uses the provider's host.

#include <mesh/config.h>
#include <mesh/policy.h>

#include "perf/mesh_tune/bench.h"
#include "src/verbs/provider.h"

#include <optional>

namespace mesh::tune {

std::optional<FabricTraits> traits_of_rails(verbs::Provider& provider, const Settings& settings);
MeasuredOn measured_on(const FabricTraits& traits);  // without label

}  // namespace mesh::tune

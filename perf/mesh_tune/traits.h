#pragma once
// The facts that a profile has about the rails on which it was taken. Thread: any, while no engine
// uses the provider's host.

#include <mesh/config.h>
#include <mesh/policy.h>

#include "src/verbs/provider.h"
#include "tuning/profile.h"

#include <optional>

namespace mesh::tune {

std::optional<FabricTraits> traits_of_rails(verbs::Provider& provider, const Settings& settings);
tuning::Measured measured_on(const FabricTraits& traits);  // without when, how and label

}  // namespace mesh::tune

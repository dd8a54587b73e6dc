#pragma once
// What a profile says of the rails on which it was taken. Thread: any, while no engine holds the
// provider's host.

#include <mesh/config.h>
#include <mesh/policy.h>

#include "src/verbs/provider.h"
#include "tuning/profile.h"

#include <optional>

namespace mesh::tune {

std::optional<FabricTraits> traits_of_rails(verbs::Provider& provider, const Settings& settings);
tuning::Measured measured_on(const FabricTraits& traits);  // without when, how and label

}  // namespace mesh::tune

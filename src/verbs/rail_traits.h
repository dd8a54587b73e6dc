#pragma once
// What the rails of this host can do, in the few numbers from which a policy is derived.
// Thread: any, at start-up: one queue pair is made and destroyed per rail to see how much it takes
// inline, for no query tells.

#include <mesh/policy.h>

#include "src/verbs/discovery.h"
#include "src/verbs/provider.h"

#include <span>

namespace mesh::verbs {

FabricTraits traits_of(Provider& provider, std::span<const Rail> rails);

}  // namespace mesh::verbs

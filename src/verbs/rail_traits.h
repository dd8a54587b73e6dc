#pragma once
// Finds what the rails of this host can do, in the few numbers from which a policy is derived. It
// makes and destroys one queue pair on each rail to see how much it takes inline, because no query
// tells. Thread: any, at start-up. Bound: the rails.

#include <mesh/policy.h>

#include "src/verbs/discovery.h"
#include "src/verbs/provider.h"

#include <span>

namespace mesh::verbs {

FabricTraits traits_of(Provider& provider, std::span<const Rail> rails);

}  // namespace mesh::verbs

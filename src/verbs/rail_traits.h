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

// Returns how many of the rails are one port: 2 if its cable is shown once for each PCIe half.
std::uint32_t rails_of_cable(std::span<const Rail> rails, const Rail& rail) noexcept;

}  // namespace mesh::verbs

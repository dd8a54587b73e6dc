#pragma once
// Turns what the user asked for and what the fabric can do into the numbers the engine obeys.
// Thread: any (pure). Bound: every result lies in the range its setting documents, whatever the
// settings say.

#include <mesh/config.h>
#include <mesh/policy.h>

namespace mesh::tuning {

// A trait of 0 is not told: nothing is limited by it, and the engine lowers the wish to what the
// device grants. The software fabric is treated as the hardware it stands for, so that what is
// tested is what runs.
TransferPolicy derive_policy(const FabricTraits& traits, const Settings& settings) noexcept;

}  // namespace mesh::tuning

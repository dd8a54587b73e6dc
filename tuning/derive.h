#pragma once
// Turns settings and traits of the fabric into the numbers that the engine obeys. Thread: any
// (pure). Bound: every result lies in the range that its setting documents, whatever the settings
// say.

#include <mesh/config.h>
#include <mesh/policy.h>

namespace mesh::tuning {

// A trait of 0 is unknown and limits nothing; the engine then lowers the value to what the device
// grants. The software fabric is treated as the hardware that it stands for, so that tests run what
// users run.
TransferPolicy derive_policy(const FabricTraits& traits, const Settings& settings) noexcept;

}  // namespace mesh::tuning

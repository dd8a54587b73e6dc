#pragma once
// Where settings, the profile and the rails become the policy: what is set explicitly goes before a
// profile's value, and that before the default. Every decision is told in one line. Thread: any, at
// start-up (reads a file). Bound: a profile's size.

#include <mesh/config.h>
#include <mesh/policy.h>
#include <mesh/status.h>

#include "tuning/profile.h"

#include <optional>
#include <string>

namespace mesh::plugin {

struct ProfileChoice {
  std::optional<tuning::Profile> profile;  // none: nobody has one for us
  std::string file;
  bool named = false;  // by NCCL_MESH_PROFILE, not found at a usual place
};

// A file that NCCL_MESH_PROFILE names must be there and right: else one WARN line and an error. The
// first that is there of the usual places is taken; if it is wrong, one WARN line says so and
// nothing is taken.
Result<ProfileChoice> load_profile(const Settings& settings);

// For the engine, when the rails are known. A profile of other rails is left aside, and a line says
// why.
TransferPolicy choose_policy(Settings settings, const ProfileChoice& choice,
                             const FabricTraits& traits);

}  // namespace mesh::plugin

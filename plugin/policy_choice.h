#pragma once
// Makes the transfer policy from the settings, the profile and the rails. An explicit setting takes
// precedence over the profile's value, and that over the default. One line tells the decisions.
// Thread: any, at start-up (reads a file). Bound: a profile's size.

#include <mesh/config.h>
#include <mesh/policy.h>
#include <mesh/status.h>

#include "tuning/profile.h"

#include <optional>
#include <string>

namespace mesh::plugin {

struct ProfileChoice {
  std::optional<tuning::Profile> profile;  // none: there is no profile
  std::string file;
  bool named = false;  // NCCL_MESH_PROFILE named the file; otherwise it is at a usual place
};

// Reads the profile. A file that NCCL_MESH_PROFILE names must exist and be right; otherwise there
// is one WARN line and an error. Without that setting the first file that exists at a usual place
// is taken; if it is wrong, one WARN line says so, and there is no profile.
Result<ProfileChoice> load_profile(const Settings& settings);

// Returns the policy; the engine calls it when the rails are known. A profile of other rails is
// ignored, and a line says why.
TransferPolicy choose_policy(Settings settings, const ProfileChoice& choice,
                             const FabricTraits& traits);

}  // namespace mesh::plugin

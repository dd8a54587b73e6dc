#pragma once
// Makes the policy of settings, the profile and the rails. An explicit setting comes before the
// profile's value, and that before the default. One line tells the decisions. Thread: any, at
// start-up (reads a file). Bound: a profile's size.

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

// A file that NCCL_MESH_PROFILE names must exist and be right; otherwise there is one WARN line and
// an error. Of the usual places the first that exists is taken. If it is wrong, one WARN line says
// so, and no profile is taken.
Result<ProfileChoice> load_profile(const Settings& settings);

// The engine calls it when the rails are known. A profile of other rails is ignored, and a line
// says why.
TransferPolicy choose_policy(Settings settings, const ProfileChoice& choice,
                             const FabricTraits& traits);

}  // namespace mesh::plugin

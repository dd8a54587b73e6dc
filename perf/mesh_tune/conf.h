#pragma once
// The lines of NCCL's configuration file that mesh_tune writes: the winners, below comments that
// tell how they were measured. Thread: any (pure).

#include "perf/mesh_tune/tuner.h"

#include <string>

namespace mesh::tune {

// `when` and `how` are for people: the time, and the command that measured.
std::string conf_text(const Report& report, const std::string& when, const std::string& how);

}  // namespace mesh::tune

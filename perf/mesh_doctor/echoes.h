#pragma once
// Leaves one finding for each fault. A fault that a host shows also shows at its cable to another
// host; the host's own finding stays, because the host knows more. Thread: any (pure).

#include "perf/mesh_doctor/finding.h"

#include <vector>

namespace mesh::doctor {

// Returns the findings between hosts, without those whose cause is among a host's own findings.
std::vector<Finding> without_echoes(std::vector<Finding> between, const std::vector<Finding>& own);

}  // namespace mesh::doctor

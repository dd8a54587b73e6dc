#pragma once
// What one host shows, the cable to another host shows too. One fault has one finding: the one of
// the host, which knows more. Thread: any (pure).

#include "perf/mesh_doctor/finding.h"

#include <vector>

namespace mesh::doctor {

// Findings between hosts, less those of which a host has the cause among its own.
std::vector<Finding> without_echoes(std::vector<Finding> between, const std::vector<Finding>& own);

}  // namespace mesh::doctor

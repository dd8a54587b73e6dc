#pragma once
// The findings of one host. Thread: any (pure). Bound: the facts.

#include "perf/mesh_doctor/finding.h"
#include "perf/mesh_doctor/host_facts.h"

#include <vector>

namespace mesh::doctor {

std::vector<Finding> check_host(const HostFacts& facts);

}  // namespace mesh::doctor

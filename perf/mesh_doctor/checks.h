#pragma once
// The checks of one host. Each group adds the findings that the facts prove. Thread: any (pure).
// Bound: the facts.

#include "perf/mesh_doctor/finding.h"
#include "perf/mesh_doctor/host_facts.h"

#include <vector>

namespace mesh::doctor {

using Findings = std::vector<Finding>;

// Runs every group.
Findings check_host(const HostFacts& facts);

void check_plugin(const HostFacts& facts, Findings& found);
void check_ports(const HostFacts& facts, Findings& found);
void check_gids(const HostFacts& facts, Findings& found);
void check_counters(const HostFacts& facts, Findings& found);
void check_pcie(const HostFacts& facts, Findings& found);
void check_machine(const HostFacts& facts, Findings& found);
void check_software(const HostFacts& facts, Findings& found);
void check_settings(const HostFacts& facts, Findings& found);

// Returns null if the port is no rail.
const RailFacts* rail_of(const HostFacts& facts, const std::string& port);
// Returns the setting that holds in a job, or null if it is not set.
const SettingFacts* setting(const HostFacts& facts, const std::string& name);

bool is_spark(const MachineFacts& machine);  // a DGX Spark, or another machine of its chip

}  // namespace mesh::doctor

#pragma once
// The checks of one host. Each group adds the findings that the facts prove. Thread: any (pure).
// Bound: the facts.

#include "perf/mesh_doctor/finding.h"
#include "perf/mesh_doctor/host_facts.h"

#include <string>
#include <vector>

namespace mesh::doctor {

using Findings = std::vector<Finding>;

// Runs every group.
Findings check_host(const HostFacts& facts);

void check_cards(const HostFacts& facts, Findings& found);
void check_plugin(const HostFacts& facts, Findings& found);
void check_ports(const HostFacts& facts, Findings& found);
void check_gids(const HostFacts& facts, Findings& found);
void check_counters(const HostFacts& facts, Findings& found);
void check_pcie(const HostFacts& facts, Findings& found);
void check_machine(const HostFacts& facts, Findings& found);
void check_network(const HostFacts& facts, Findings& found);
void check_software(const HostFacts& facts, Findings& found);
void check_settings(const HostFacts& facts, Findings& found);

// Returns the findings between hosts, with the cause instead of each silent cable that a host on
// the way explains.
Findings explain_silence(Findings between, const std::vector<HostFacts>& hosts);

// Returns the plugin's words about a port, "mlx5_0:1 is down"; empty: it says nothing.
std::string reason_of(const HostFacts& facts, const PortFacts& port);
// Returns what a user can do about a port that is no rail, in sentences.
std::string remedy_of(RefusalKind kind);
std::string remedy_of(const HostFacts& facts, const PortFacts& port);
// Returns true for a port of a device that the plugin says nothing about, because libibverbs does
// not show it. Without libibverbs no device is shown, and that is another finding.
bool is_unseen(const HostFacts& facts, const PortFacts& port);

// Returns true for a port of a card with the finding card-silent, which explains all else.
bool is_silent(const HostFacts& facts, const PortFacts& port);

// Returns null if the port is no rail.
const RailFacts* rail_of(const HostFacts& facts, const std::string& port);
// Returns the variable that holds in a job, or null if it is not set.
const SettingFacts* variable(const HostFacts& facts, const std::string& name);
// Returns null also if the variable is empty, which is as unset for most settings.
const SettingFacts* setting(const HostFacts& facts, const std::string& name);

bool is_spark(const MachineFacts& machine);  // a DGX Spark, or another machine of its chip

}  // namespace mesh::doctor

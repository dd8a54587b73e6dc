#pragma once
// The ways between a rail's NIC and the CPUs, memory and GPUs of its host, as mesh_rails tells
// them. Thread: any (values). Bound: the parts of the host.

#include "src/topo/ways.h"

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <vector>

namespace mesh::rails {

struct RailWays {
  std::vector<topo::Way> ways;
  int poller_cpu = -1;                   // that a poller of this rail takes first; -1: none
  std::vector<std::string> near_memory;  // the nodes that are nearest, by name
};

// Returns no ways if the host has no device of that PCI address. Leaves poller_cpu to the caller.
RailWays ways_of(const topo::HostParts& host, const std::string& pci);

// Returns lines for people; `name` is the rail's. Ways that are alike share a line.
std::string ways_text(const topo::HostParts& host, const RailWays& ways, const std::string& name);
// Adds the ways as fields of the rail's object.
void add_ways(const topo::HostParts& host, const RailWays& ways, nlohmann::ordered_json& rail);

}  // namespace mesh::rails

#pragma once
// What mesh_rails tells of the ways between a rail's NIC and the CPUs, memory and GPUs of its host.
// Thread: any (values). Bound: the parts of the host.

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

// poller_cpu is left to the caller. Without ways: the host has no device of that PCI address.
RailWays ways_of(const topo::HostParts& host, const std::string& pci);

// Lines for people; `name` is the rail's. What is alike shares a line.
std::string ways_text(const topo::HostParts& host, const RailWays& ways, const std::string& name);
// Fields of the rail's object.
void add_ways(const topo::HostParts& host, const RailWays& ways, nlohmann::ordered_json& rail);

}  // namespace mesh::rails

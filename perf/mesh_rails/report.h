#pragma once
// The report of mesh_rails: reads the rails from a plugin, and writes a table for people or JSON
// for programs. Thread: one owner; the plugin's lines are those of PluginLog. Bound: the plugin's
// devices.

#include "perf/driver/net_api.h"
#include "perf/mesh_rails/rail_lines.h"
#include "perf/mesh_rails/rail_ways.h"

#include <optional>
#include <string>
#include <vector>

namespace mesh::rails {

// One device as NCCL is told of it, and what the plugin's log adds.
struct Rail {
  int index = 0;
  driver::NetProperties properties;
  std::optional<RailLine> line;
  RailWays ways;  // within this host
};

struct Report {
  std::string plugin;  // its name and interface version, "Mesh (ncclNet v12)"
  std::vector<Rail> rails;
  std::vector<std::string> notes;  // the plugin's lines about ports, see port_notes
  std::string refusal{};           // why the plugin does not start, if not for want of a rail
  topo::HostParts host;            // empty: not known
};

std::string table(const Report& report);
std::string json(const Report& report);

// Asks a loaded plugin for its rails, as NCCL does at start-up, and adds what its lines tell.
// Returns a result of NCCL. A plugin that refuses to start is no failure: it has no rails, and the
// report or the log has the reason.
int read_rails(driver::NetApi& api, Report& report);

}  // namespace mesh::rails

#pragma once
// The report of mesh_rails: reads the rails from a plugin, and writes a table for people or JSON
// for programs. Thread: one owner. Bound: the plugin's devices and ports.

#include "perf/driver/net_api.h"
#include "perf/mesh_rails/rail_ways.h"

#include <optional>
#include <string>
#include <vector>

namespace mesh::rails {

// One device as NCCL is told of it, and what the plugin's snapshot adds.
struct Rail {
  int index = 0;
  driver::NetProperties properties;
  std::optional<RailSnapshot> known;
  RailWays ways;  // within this host
};

struct Report {
  std::string plugin;  // its name and interface version, "Mesh (ncclNet v12)"
  std::vector<Rail> rails;
  Snapshot snapshot;  // the plugin's, while it had a communicator, or of a start that failed
  std::vector<std::string> notes;  // of notes_of(snapshot)
  std::string refusal{};           // why the plugin does not start, if not for want of a rail
  topo::HostParts host;            // empty: not known
};

// Returns sentences about ports: why some are not used, or none; which are down; which share a
// subnet.
std::vector<std::string> notes_of(const Snapshot& snapshot);

std::string table(const Report& report);
std::string json(const Report& report);

// Asks a loaded plugin for its rails, as NCCL does at start-up, and for its snapshot. Returns a
// result of NCCL. A plugin that refuses to start is no failure: it has no rails, and the report has
// the reason.
int read_rails(driver::NetApi& api, Report& report);

}  // namespace mesh::rails

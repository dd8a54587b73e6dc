#pragma once
// Writes the engine's figures as a page of Prometheus' text format, which node_exporter's textfile
// collector reads, and the table of all metrics for plugin/README.md. Thread: any (pure). Bound: a
// page grows with rails, ways of relayed bytes, peers and their paths (engine/figures.h).

#include <mesh/snapshot.h>

#include <cstdint>
#include <string>

namespace mesh::plugin {

// Facts about the process that the engine does not know.
struct ProcessFacts {
  int process = 0;
  std::uint64_t start_s = 0, now_s = 0;  // since the epoch
  std::uint64_t interval_s = 0;          // between two pages
  bool running = true;                   // false: this is the last page
};

std::string metrics_page(const EngineSnapshot& snapshot, const ProcessFacts& facts);
std::string metrics_markdown();

}  // namespace mesh::plugin

#pragma once
// The engine's figures as a page of Prometheus' text format, as node_exporter's textfile collector
// reads it, and the table of all metrics for plugin/README.md. Pure. Thread: any. Bound: a page
// grows with rails, and with peers and their paths (see engine/peer_ledger.h).

#include <mesh/snapshot.h>

#include <cstdint>
#include <string>

namespace mesh::plugin {

// What the engine does not know about its process.
struct ProcessFacts {
  int process = 0;
  std::uint64_t start_s = 0, now_s = 0;  // since the epoch
  bool running = true;                   // false: this is the last page
};

std::string metrics_page(const EngineSnapshot& snapshot, const ProcessFacts& facts);
std::string metrics_markdown();

}  // namespace mesh::plugin

#pragma once
// Writes the engine's figures as a page of Prometheus' text format, which node_exporter's textfile
// collector reads. Thread: any (pure). Bound: a page grows with rails, ways of relayed bytes, peers
// and their paths (engine/figures.h).

#include <mesh/snapshot.h>

#include "src/base/snapshot_json.h"

#include <string>

namespace mesh::plugin {

std::string metrics_page(const EngineSnapshot& snapshot, const ProcessFacts& facts);

}  // namespace mesh::plugin

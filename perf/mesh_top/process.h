#pragma once
// A process as its snapshots show it: whether it still writes them, and the rates between two of
// them, or of its whole run if there is only one. Thread: any (values).

#include "src/base/snapshot_json.h"

#include <cstdint>
#include <optional>

namespace mesh::top {

struct Process {
  Snapshot now;
  std::optional<Snapshot> before;  // an older one of the same process
};

std::uint64_t age_s(const Process& process, std::uint64_t now_s);
// Returns "runs", "ended", or "silent" for a process that has missed some files.
const char* state_of(const Process& process, std::uint64_t now_s);

// These return the same peer, path or way in the older snapshot, or a value with counts of 0.
PeerSnapshot before_of(const Process& process, const PeerSnapshot& peer);
PathSnapshot before_of(const PeerSnapshot& before, const PathSnapshot& path);
RelayedSnapshot before_of(const Process& process, const RelayedSnapshot& way);

// Returns the path's samples since the older snapshot, or all if it has none.
LatencyHistogram latency_since(const PathSnapshot& before, const PathSnapshot& path);

// Returns the growth of a counter per second.
double rate(const Process& process, std::uint64_t now, std::uint64_t before);

}  // namespace mesh::top

#pragma once
// The screen of mesh_top: processes, the ports of their hosts, their links with rates and waits,
// their paths, and what they carry for others; and all that as JSON. Thread: any (pure).

#include "perf/mesh_top/process.h"

#include <cstdint>
#include <string>
#include <vector>

namespace mesh::top {

struct ViewOptions {
  std::uint64_t now_s = 0;  // since the epoch
  bool colour = false;      // true: what is wrong stands out
};

std::string view(const std::vector<Process>& processes, const ViewOptions& options);

// Returns one line: each process's snapshot with its state, its age, and a rate for each counter of
// a peer, a path and a way.
std::string json(const std::vector<Process>& processes, std::uint64_t now_s);

}  // namespace mesh::top

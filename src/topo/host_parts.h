#pragma once
// Reads the parts of this host that data goes through, as hwloc knows them. Thread: any, at
// start-up. Bound: kPartsMax parts.

#include <mesh/status.h>

#include "src/topo/ways.h"

#include <string>

namespace mesh::topo {

struct PartsSource {
  std::string hwloc_library = "libhwloc.so.15";
  std::string xml = {};  // a topology as lstopo exports it; empty: this host
};
// Returns NotFound if there is no hwloc, or it reads nothing here; a line said so.
Result<HostParts> read_host_parts(const PartsSource& source = {});

}  // namespace mesh::topo

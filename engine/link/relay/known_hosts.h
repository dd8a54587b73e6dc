#pragma once
// Lists of hosts that may carry for others, merged from what several hosts tell. Thread: any, one
// for each list. Bounds: kRelayHostsMax hosts of kControlAddressesMax addresses.

#include "engine/control/frames.h"
#include "engine/control/relay_frames.h"
#include "engine/link/relay/routes.h"

#include <vector>

namespace mesh::engine {

// Adds the host unless its ticket is zero or in the list. If it is in the list with the same port,
// it gets the addresses that it lacks: not every host knows all addresses of another.
void add_once(std::vector<WireHost>& hosts, const WireHost& host);

}  // namespace mesh::engine

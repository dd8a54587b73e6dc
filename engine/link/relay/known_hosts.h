#pragma once
// Lists of hosts that may carry for others, merged from what several hosts tell; and who is who.
// Thread: any, one for each list. Bounds: kRelayHostsMax hosts of kControlAddressesMax addresses.

#include "engine/control/frames.h"
#include "engine/control/relay_frames.h"
#include "engine/link/relay/routes.h"

#include <vector>

namespace mesh::engine {

// Returns true for two processes of one host, of which one may have been given fewer rails.
bool is_same_host(const std::vector<WireRail>& rails, const std::vector<WireRail>& other);

// Adds the host unless its ticket is zero or in the list. If it is in the list with the same port,
// it gets the addresses that it lacks: not every host knows all addresses of another.
void add_once(std::vector<WireHost>& hosts, const WireHost& host);

}  // namespace mesh::engine

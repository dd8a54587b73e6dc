#pragma once
// Hosts that may carry for others, as several have told of them. Thread: any, one for each list.
// Bounds: kRelayHostsMax hosts of kControlAddressesMax addresses.

#include "engine/control/frames.h"
#include "engine/control/relay_frames.h"
#include "engine/link/relay/routes.h"

#include <vector>

namespace mesh::engine {

// Each ticket once, and the zero ticket never. Who tells of a host knows it from where he is: the
// addresses that one says and another does not are added, if the port is the same.
void add_once(std::vector<WireHost>& hosts, const WireHost& host);

}  // namespace mesh::engine

#pragma once
// Lets a rank tell a host of its software fabric what breaks, and ask it what it has posted.
// Thread: any.

#include "src/soft/fault_door.h"

#include <string>

namespace mesh::e2e {

// Throws Failure where the host does not answer or refuses.
soft::FaultAnswer tell(const std::string& host, const soft::FaultOrder& order);

}  // namespace mesh::e2e

#pragma once
// A table of the memory that the parts of a link take, computed from their types and the policy.
// Thread: any. Bounds: none.

#include <mesh/policy.h>

#include <string>

namespace mesh::scale {

// Returns a table of the parts of a link of one path. The columns are our own memory, the memory
// that is registered for the peer, and the entries of the device's queues.
std::string parts_table(const TransferPolicy& policy);

}  // namespace mesh::scale

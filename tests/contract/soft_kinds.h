#pragma once
// What the software fabric's own tests need of its kinds.
// Thread: the test's.

#include "src/soft/soft_provider.h"

#include <memory>
#include <string>

namespace mesh::contract {

// A host of the suite's pair, "a" or "b"; empty: the first that is free.
Result<std::unique_ptr<soft::SoftProvider>> open_soft(const std::string& host);

}  // namespace mesh::contract

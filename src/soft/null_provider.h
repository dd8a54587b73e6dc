#pragma once
// The null fabric as a verbs provider: the one host of a fabric file with "null", whose NICs reach
// themselves and each other, so that the contexts of one process meet. Nothing outside the process
// is reached, and a queue pair of another one is refused. Thread: any, as Provider.

#include <mesh/status.h>

#include "src/soft/fabric_file.h"
#include "src/verbs/provider.h"

#include <memory>

namespace mesh::soft {

// Returns InvalidArgument if the file is of no null fabric. When the fabric goes, one INFO line
// says what has happened on it.
Result<std::unique_ptr<verbs::Provider>> open_null(const FabricFile& fabric);

}  // namespace mesh::soft

#pragma once
// mesh_tune on the model: the first two hosts of a fabric file, in computed time.
// Thread: one owner.

#include "perf/mesh_tune/bench.h"
#include "src/soft/fabric_file.h"

#include <memory>

namespace mesh::tune {

// Returns null if the file is wrong; `why` says how.
std::unique_ptr<Bench> open_model_bench(const std::string& file, std::string& why);

}  // namespace mesh::tune

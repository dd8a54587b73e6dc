#pragma once
// Finds the rank of this process and the number of ranks when a cluster starts them: from flags,
// then RANK and WORLD_SIZE, then the variables of Open MPI, MPICH and Slurm. A rendezvous makes a
// run a cluster's. Thread: any (values).

#include <mesh/status.h>

#include "src/base/config.h"

#include <string>

namespace mesh::driver {

struct World {
  int rank = -1;           // -1: unknown
  int size = 0;            // 0: unknown; otherwise 1..kWorldMax
  std::string rendezvous;  // host:port or [v6]:port of rank 0; empty: this is no cluster's run, and
                           // the rest means nothing
};

// Returns the place of this process. `flags` are those of the command line. Fails with one line in
// `why` that names what is wrong or contradictory.
Result<World> find_world(const World& flags, const Environment& environment, std::string& why);

// Returns the value of a variable, empty if it is not set.
std::string variable(const Environment& environment, const std::string& name);
// Returns true if the variable is set, and not to 0.
bool switched_on(const Environment& environment, const std::string& name);

}  // namespace mesh::driver

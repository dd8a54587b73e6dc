#pragma once
// Which rank of how many this process is, when a cluster starts the ranks and not we: flags, then
// RANK and WORLD_SIZE, then what Open MPI, MPICH and Slurm tell their processes. A rendezvous is
// what makes it a cluster's run. Thread: any (values).

#include <mesh/status.h>

#include "src/base/config.h"

#include <string>

namespace mesh::driver {

struct World {
  int rank = -1;           // -1: not said
  int size = 0;            // 0: not said; else 1..kWorldMax
  std::string rendezvous;  // host:port or [v6]:port of rank 0; empty: this is no cluster's run, and
                           // the rest means nothing
};

// `flags`: what the command line says. Fails with one line in `why` that names what is wrong or
// contradictory.
Result<World> find_world(const World& flags, const Environment& environment, std::string& why);

// The value of a variable, empty when it is not set.
std::string variable(const Environment& environment, const std::string& name);
// Set, and to something else than 0.
bool switched_on(const Environment& environment, const std::string& name);

}  // namespace mesh::driver

#pragma once
// Finds the rank of this process and the number of ranks, and both among the ranks of its host,
// when a cluster starts them: from flags, then the variables of torchrun (RANK, WORLD_SIZE,
// LOCAL_RANK, LOCAL_WORLD_SIZE), then those of Open MPI, MPICH and Slurm. A rendezvous makes a run
// a cluster's. Thread: any (values).

#include <mesh/status.h>

#include "src/base/config.h"

#include <string>

namespace mesh::driver {

struct World {
  int rank = -1;           // -1: unknown
  int size = 0;            // 0: unknown; otherwise 1..kWorldMax
  int local_rank = 0;      // among the ranks of this host; 0 also if the launcher does not tell
  int local_size = 0;      // the ranks of this host; 0: unknown
  std::string rendezvous;  // host:port or [v6]:port of rank 0; empty: this is no cluster's run, and
                           // the rest means nothing
};

// The place of a process among the ranks, as its command line gives it (rank_options.h).
struct RankOptions {
  World world;             // with a rendezvous: one of several ranks
  int rendezvous_fd = -1;  // from our launcher, for rank 0
  bool launched = false;   // by our launcher

  bool is_rank() const noexcept { return !world.rendezvous.empty(); }
};

// Returns the place of this process. `flags` are those of the command line. Fails with one line in
// `why` that names what is wrong or contradictory.
Result<World> find_world(const World& flags, const Environment& environment, std::string& why);

// Returns the value of a variable, empty if it is not set.
std::string variable(const Environment& environment, const std::string& name);
// Returns true if the variable is set, and not to 0.
bool switched_on(const Environment& environment, const std::string& name);

}  // namespace mesh::driver

#pragma once
// Starts the running program for each host of a software fabric, as the ranks of one run on this
// machine. A rank is told its place by --rank, --world-size, --rendezvous and --launched, and
// rank 0 also gets --rendezvous-fd. Thread: one owner. Bound: the timeout.

#include "perf/driver/launcher.h"

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace mesh::driver {

struct LocalRanks {
  std::string tool;                // its name, for messages
  std::string fabric;              // the file
  std::vector<std::string> hosts;  // of the file; empty: all
  int ranks_per_host = 1;
  std::vector<std::string> arguments;  // what every rank is started with
  std::chrono::seconds timeout{0};
};

struct LocalRanksEnd {
  WaitEnd how = WaitEnd::AllEnded;
  std::vector<std::string> hosts;
  std::vector<std::optional<ProcessEnd>> ends;  // by rank; none: it was still running
};

// Returns nothing if they could not be started. The reason is on stderr, as is a timeout.
std::optional<LocalRanksEnd> run_local_ranks(const LocalRanks& run);

}  // namespace mesh::driver

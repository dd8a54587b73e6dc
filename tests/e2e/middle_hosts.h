#pragma once
// Runs a whole suite of two hosts over hosts between them: `--middle 1` or `--middle 2`. Each cable
// is cut in pieces, and the processes of the hosts between do nothing but hold links with their
// neighbours. Tests of other fabrics are skipped then. Thread: main.

#include "perf/driver/bootstrap.h"
#include "perf/driver/connection_set.h"
#include "tests/e2e/scenario.h"
#include "tests/prelude.h"

namespace mesh::e2e {

// Takes the flag out of the arguments. Returns false, after one line that says why, if it is not
// usable.
bool take_middle_hosts(int& argc, char** argv);
int middle_hosts();  // how many this run has

// Returns the fabric with hosts between its two hosts, which stay the first ones. Empty if it has
// not two hosts that cables join.
std::string fabric_with_middle_hosts(const std::string& text, int count);

// Makes these ranks a world of their own, in this order, all on this machine. Every rank calls it;
// returns nothing if the caller's rank is none of them.
std::optional<driver::Bootstrap> meet(driver::Bootstrap& all, const std::vector<int>& ranks);

// Holds, in a rank's process while ranks 0 and 1 run their scenario, a communicator that has links
// with the neighbours on the line. It goes when all ranks are done.
class MiddleHosts {
 public:
  MiddleHosts(Peer& everybody, int count);
  // The world of ranks 0 and 1; nothing on the hosts between.
  std::optional<driver::Bootstrap>& ends() noexcept { return ends_; }
  void finish();  // every rank calls it

 private:
  Peer& everybody_;
  const std::unique_ptr<driver::NetApi> api_;
  std::optional<driver::Bootstrap> ends_;
  std::unique_ptr<driver::Communicator> communicator_;
  std::unique_ptr<driver::ConnectionSet> connections_;
};

}  // namespace mesh::e2e

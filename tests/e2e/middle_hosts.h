#pragma once
// A whole run of a suite of two hosts over hosts between them: `--middle 1` or `--middle 2`. Each
// cable is cut in pieces, and the processes of the hosts between do nothing but hold links with
// their neighbours. Tests of other fabrics are skipped then. Thread: main.

#include "perf/driver/bootstrap.h"
#include "perf/driver/connection_set.h"
#include "tests/e2e/scenario.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace mesh::e2e {

// Takes the flag out of the arguments. False: it is not usable, and one line said why.
bool take_middle_hosts(int& argc, char** argv);
int middle_hosts();  // so many in this run

// The fabric with hosts between its two, which stay the first ones. Empty: it has not two hosts
// that cables join.
std::string fabric_with_middle_hosts(const std::string& text, int count);

// Those ranks as a world of their own, in this order, all on this machine. Every rank calls it;
// nothing where ours is none of them.
std::optional<driver::Bootstrap> meet(driver::Bootstrap& all, const std::vector<int>& ranks);

// What a rank's process holds while ranks 0 and 1 run their scenario: a communicator that has links
// with the neighbours on the line. It goes when all are done.
class MiddleHosts {
 public:
  MiddleHosts(Peer& everybody, int count);
  // Of ranks 0 and 1; nothing on the hosts between.
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

#pragma once
// The file that ends a run of open length (--until). The ranks agree on it: the host of any rank
// may hold the file, and all of them end after the same round. Thread: one owner. Every call is
// bounded by the bootstrap's timeout, the run as a whole by --timeout.

#include "perf/driver/bootstrap.h"

#include <mesh/status.h>

#include <string>

namespace mesh::perf {

class EndMark {
 public:
  // An empty name means that the run has a fixed length: then nothing is looked for and nothing is
  // exchanged.
  EndMark(std::string file, driver::Bootstrap& bootstrap)
      : file_(std::move(file)), bootstrap_(bootstrap) {}

  // Returns whether some rank's host has the file. Every rank asks after the same round, and all
  // get the same result. Returns an error if a rank was lost.
  Result<bool> seen();

 private:
  const std::string file_;
  driver::Bootstrap& bootstrap_;
};

}  // namespace mesh::perf

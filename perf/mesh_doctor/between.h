#pragma once
// What lies between the hosts of a run: the cabling map, and what each cable carries. All hosts go
// through the same steps at the same time. Thread: one owner, every rank. Bound: kStepsMax steps of
// some seconds each.

#include "perf/driver/bootstrap.h"
#include "perf/mesh_doctor/finding.h"
#include "perf/mesh_doctor/host_facts.h"

#include <string>
#include <vector>

namespace mesh::doctor {

struct BetweenOptions {
  std::string plugin;
  std::string expect_file, map_file, svg_file;  // empty: none; rank 0's
  double threshold = 0.8;                       // the part of what a port promises that is enough
  bool quick = false;
  int patience_s = 8;
};

// Rank 0's has everything; the others' is empty.
struct BetweenHosts {
  std::vector<Finding> findings;
  std::vector<std::string> sections;  // text for people
  std::string json;                   // an object with the members "cables" and "order"
  bool whole = true;                  // false: a host was lost, and findings name it
  bool written = true;                // the files that were asked for; what was not is said
};

// own: this host's facts, whose PCIe widths bound what is expected.
BetweenHosts look_between(driver::Bootstrap& bootstrap, const HostFacts& own,
                          const BetweenOptions& options);

}  // namespace mesh::doctor

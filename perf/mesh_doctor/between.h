#pragma once
// The look at what lies between the hosts of a run: the cabling map, and the rates of the cables.
// All hosts go through its steps at the same time. Thread: one owner, every rank. Bound: kStepsMax
// steps of some seconds each.

#include "perf/driver/bootstrap.h"
#include "perf/mesh_doctor/finding.h"
#include "perf/mesh_doctor/host_facts.h"

#include <string>
#include <vector>

namespace mesh::doctor {

struct BetweenOptions {
  std::string plugin;
  std::string expect_file, map_file, svg_file;  // used by rank 0; empty: none
  double threshold = 0.8;                       // the share of the expected rate that is enough
  bool quick = false;
  int patience_s = 8;
};

// Complete at rank 0, empty at the other ranks.
struct BetweenHosts {
  std::vector<Finding> findings;
  std::vector<std::string> sections;  // text for people
  std::string json;                   // an object with the members "cables" and "order"
  bool whole = true;                  // false: a host was lost, and findings name it
  bool written = true;                // every file that was asked for; a failure has been reported
};

// own: this host's facts, whose PCIe widths bound the expected rates.
BetweenHosts look_between(driver::Bootstrap& bootstrap, const HostFacts& own,
                          const BetweenOptions& options);

}  // namespace mesh::doctor

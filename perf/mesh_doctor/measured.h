#pragma once
// The measurements of the cables, and their findings. Thread: any (values). Bound: the cabling.

#include "perf/mesh_doctor/cabling.h"
#include "perf/mesh_doctor/finding.h"
#include "perf/mesh_doctor/probe.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <vector>

namespace mesh::doctor {

// One measurement of a cable: of one of its halves alone, or of all of it.
struct Step {
  std::size_t cable = 0;            // index in the cabling
  std::optional<std::size_t> half;  // nothing: all halves together
};

struct Measured {
  Step step;
  Seen at_a, at_b;

  bool passed() const { return at_a.failed.empty() && at_b.failed.empty(); }
  double to_b_gbps() const { return at_b.received_gbps; }
  double to_a_gbps() const { return at_a.received_gbps; }
  double slower_gbps() const { return std::min(to_a_gbps(), to_b_gbps()); }
};

// Returns the payload that the ports promise in each direction, in 10^9 bits a second: the slower
// port's speed less the headers of packets of that MTU. A half promises no more than its PCIe link
// carries or, if that is not known, its share. Returns 0 if nothing can be expected.
double expected_gbps(const Cabling& cabling, const Step& step);

// threshold: the share of the expected rate that is enough.
std::vector<Finding> judge(const Cabling& cabling, const std::vector<Measured>& measured,
                           double threshold);
// Returns true if another try makes sense: the cable passed, and too slowly.
bool is_slow(const Cabling& cabling, const Measured& measured, double threshold);

// Returns the findings that need no measuring: halves that are missing or down, MTUs that differ.
std::vector<Finding> look_at_map(const Cabling& cabling);
// Returns the rails that meet nobody. An expected map tells them too, so this is for runs without.
std::vector<Finding> lone_rails(const Cabling& cabling);

}  // namespace mesh::doctor

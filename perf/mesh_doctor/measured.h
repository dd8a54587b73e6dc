#pragma once
// What was measured of the cables, and what is wrong with that. Thread: any (values). Bound: the
// cabling.

#include "perf/mesh_doctor/cabling.h"
#include "perf/mesh_doctor/finding.h"
#include "perf/mesh_doctor/probe.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace mesh::doctor {

// One time that a cable carried messages: one of its halves alone, or all of it.
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

// The payload that the ports promise in each direction, in 10^9 bits a second: the slower port's
// speed less what packets of that MTU add, and of one half no more than its PCIe link, or where
// that is not known its share. 0: nothing can be expected.
double expected_gbps(const Cabling& cabling, const Step& step);

// threshold: the part of what is expected that is enough.
std::vector<Finding> judge(const Cabling& cabling, const std::vector<Measured>& measured,
                           double threshold);
// Whether another try makes sense: it passed, and too slowly.
bool is_slow(const Cabling& cabling, const Measured& measured, double threshold);

// What needs no measuring: halves that are missing or down, MTUs that differ.
std::vector<Finding> look_at_map(const Cabling& cabling);
// Rails that meet nobody. Where a map says what should meet, it says this too.
std::vector<Finding> lone_rails(const Cabling& cabling);

}  // namespace mesh::doctor

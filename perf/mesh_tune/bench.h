#pragma once
// The bench of mesh_tune: a pair of hosts that takes settings and answers with times. Thread: one
// owner.

#include "perf/mesh_tune/sweep.h"
#include "tuning/profile.h"

#include <span>
#include <string>
#include <vector>

namespace mesh::tune {

class Bench {
 public:
  virtual ~Bench() = default;

  // One round of one set of settings: microseconds a message, by point. Empty: `why` says why.
  virtual std::vector<double> measure(const tuning::KnobValues& settings,
                                      std::span<const Point> points, std::string& why) = 0;
  // On what: everything of a profile's head but when and how.
  virtual const tuning::Measured& ground() const = 0;
  // Whether measuring again can give other times.
  virtual bool wavers() const = 0;
};

}  // namespace mesh::tune

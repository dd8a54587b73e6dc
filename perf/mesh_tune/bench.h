#pragma once
// The bench of mesh_tune: a pair of hosts that takes settings and returns times. Thread: one owner.

#include "perf/mesh_tune/sweep.h"
#include "tuning/profile.h"

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace mesh::tune {

class Bench {
 public:
  virtual ~Bench() = default;

  // Measures one round of one set of settings. Returns the microseconds of a message, by point;
  // empty if it fails, and `why` says why.
  virtual std::vector<double> measure(const tuning::KnobValues& settings,
                                      std::span<const Point> points, std::string& why) = 0;
  // Returns the ground: everything of a profile's head but when and how.
  virtual const tuning::Measured& ground() const = 0;
  // Returns true if measuring again can give other times.
  virtual bool is_noisy() const = 0;
};

// Opens the bench on the model: the first two hosts of a fabric file, in computed time. Returns
// null if the file is wrong; `why` says how.
std::unique_ptr<Bench> open_model_bench(const std::string& file, std::string& why);

}  // namespace mesh::tune

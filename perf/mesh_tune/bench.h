#pragma once
// The bench of mesh_tune: a pair of hosts that takes settings and returns times. Thread: one owner.

#include "perf/mesh_tune/sweep.h"
#include "tuning/knob.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace mesh::tune {

// The rails on which it measures, for people.
struct MeasuredOn {
  std::string label;                 // "software fabric on this host, not RDMA (pair.json)"
  std::vector<std::string> devices;  // devices of both hosts; empty for a model
  std::uint32_t rails = 1;           // rails of each host
  std::uint32_t speed_mbps = 0;      // the slowest rail's
  std::uint32_t mtu = 0;             // the smallest of all rails
};

class Bench {
 public:
  virtual ~Bench() = default;

  // Measures one round of one set of settings. Returns the microseconds of a message, by point;
  // empty if it fails, and `why` says why.
  virtual std::vector<double> measure(const tuning::KnobValues& settings,
                                      std::span<const Point> points, std::string& why) = 0;
  virtual const MeasuredOn& ground() const = 0;
  // Returns true if measuring again can give other times.
  virtual bool is_noisy() const = 0;
};

// Opens the bench on the model: the first two hosts of a fabric file, in computed time. Returns
// null if the file is wrong; `why` says how.
std::unique_ptr<Bench> open_model_bench(const std::string& file, std::string& why);

}  // namespace mesh::tune

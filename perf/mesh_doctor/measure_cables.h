#pragma once
// Measures the cables of a map, in rounds that all hosts go through at the same time. Every host
// has at most one cable in a round. Thread: one owner, every rank; schedule() is pure. Bound:
// kStepsMax steps, and ProbeTimes for each.

#include "perf/driver/bootstrap.h"
#include "perf/driver/net_api.h"
#include "perf/mesh_doctor/measured.h"

#include <chrono>
#include <cstddef>
#include <vector>

namespace mesh::doctor {

inline constexpr std::size_t kStepsMax = 2000;

using Round = std::vector<Step>;

// Each cable has a step for every half alone, and then one for all halves together. Hosts that
// share a machine measure one cable at a time.
struct Schedule {
  std::vector<Round> rounds;
  std::size_t left_out = 0;  // steps beyond the bound
};
Schedule schedule(const Cabling& cabling, bool one_machine);

struct MeasureOptions {
  double threshold = 0.8;
  bool quick = false;
  std::chrono::seconds patience{8};
  bool one_machine = false;
};

class CableMeasurer {
 public:
  // api: null if the plugin does not load; such a host only takes part in the exchanges.
  CableMeasurer(driver::Bootstrap& bootstrap, driver::NetApi* api, const MeasureOptions& options)
      : bootstrap_(bootstrap), api_(api), options_(options) {}

  // Returns false if a host was lost.
  bool run(const Cabling& cabling);
  const std::vector<Measured>& measured() const noexcept { return measured_; }
  std::size_t left_out() const noexcept { return left_out_; }

 private:
  bool run_round(const Cabling& cabling, const Round& round, bool alone);
  bool wanted(const Cabling& cabling, const Step& step) const;
  void keep(const Measured& measured);
  void show(const Cabling& cabling, const Round& round, std::size_t number,
            std::size_t rounds) const;

  driver::Bootstrap& bootstrap_;
  driver::NetApi* const api_;
  const MeasureOptions options_;
  std::vector<Measured> measured_;
  std::size_t left_out_ = 0;
};

}  // namespace mesh::doctor

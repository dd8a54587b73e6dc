#pragma once
// Walks the stages of a sweep on a bench, compares the whole choice with the defaults at the end,
// and tells what is faster. Thread: one owner. Bound: the time limit, and one round more.

#include "perf/mesh_tune/bench.h"

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace mesh::tune {

struct TunerOptions {
  Plan plan;
  std::chrono::seconds limit{600};
  std::function<void(const std::string&)> progress;  // a short line now and then
};

struct StageReport {
  Stage stage;
  Choice choice;
  int rounds = 0;  // 0: not measured, choice.why says why
};

// The gain of the winners with messages of one size.
struct Gain {
  Point point;
  double default_us = 0;  // median time of a message
  double tuned_us = 0;
  double noise = 0;  // between rounds, as a share of the median
};

struct Report {
  std::vector<StageReport> stages;
  std::vector<PointVerdict> whole;  // the choice against the defaults; empty: nothing was chosen
  std::string verdict;              // one sentence
  MeasuredOn measured;
  tuning::KnobValues settings;  // no value: nothing was better than the default
  std::vector<Gain> gains;
};

// Returns nothing if it fails; `why` says why.
std::optional<Report> tune(Bench& bench, const TunerOptions& options, std::string& why);

}  // namespace mesh::tune

#pragma once
// Walks the stages of a sweep on a bench, compares the whole choice with the defaults at the end,
// and makes the profile. Thread: one owner. Bound: the time limit, and one round more.

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

struct Report {
  std::vector<StageReport> stages;
  std::vector<PointVerdict> whole;  // the choice against the defaults; empty: nothing was chosen
  std::string verdict;              // one sentence
  tuning::Profile profile;          // without when and how
};

// Returns nothing if it fails; `why` says why.
std::optional<Report> tune(Bench& bench, const TunerOptions& options, std::string& why);

}  // namespace mesh::tune

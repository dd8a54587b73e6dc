#include "perf/mesh_doctor/schedule.h"

#include <algorithm>
#include <set>

namespace mesh::doctor {
namespace {

bool fits(const Cabling& cabling, const Round& round, const Step& step) {
  std::set<std::size_t> busy;
  for (const Step& each : round) {
    busy.insert(cabling.cables[each.cable].a());
    busy.insert(cabling.cables[each.cable].b());
  }
  const Cable& cable = cabling.cables[step.cable];
  return !busy.contains(cable.a()) && !busy.contains(cable.b());
}

std::vector<Step> steps_of(const Cabling& cabling) {
  std::vector<Step> steps;
  for (std::size_t cable = 0; cable < cabling.cables.size(); ++cable) {
    const std::vector<Half>& halves = cabling.cables[cable].halves;
    std::size_t up = 0;
    for (std::size_t half = 0; half < halves.size(); ++half) {
      if (!halves[half].up) continue;
      ++up;
      if (halves.size() > 1) steps.push_back({cable, half});
    }
    if (up == halves.size()) steps.push_back({cable, std::nullopt});
  }
  return steps;
}

}  // namespace

Schedule schedule(const Cabling& cabling, bool one_machine) {
  std::vector<Step> steps = steps_of(cabling);
  Schedule made;
  if (steps.size() > kStepsMax) made.left_out = steps.size() - kStepsMax;
  steps.resize(steps.size() - made.left_out);
  for (const Step& step : steps) {
    const auto of_cable = [&](const Step& each) { return each.cable == step.cable; };
    const auto last = std::find_if(made.rounds.rbegin(), made.rounds.rend(), [&](const Round& all) {
      return std::any_of(all.begin(), all.end(), of_cable);
    });
    const auto from = one_machine ? made.rounds.end() : last.base();  // the round after it
    const auto free = std::find_if(from, made.rounds.end(),
                                   [&](const Round& round) { return fits(cabling, round, step); });
    if (free == made.rounds.end()) {
      made.rounds.push_back({step});
    } else {
      free->push_back(step);
    }
  }
  return made;
}

}  // namespace mesh::doctor

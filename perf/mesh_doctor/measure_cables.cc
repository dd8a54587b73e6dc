#include "perf/mesh_doctor/measure_cables.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
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

constexpr int kTries = 2;  // tries of a slow cable, because a busy host is no sick cable

ProbeTimes times_of(const MeasureOptions& options) {
  ProbeTimes times;
  times.patience = options.patience;
  if (!options.quick) return times;
  times.flood = std::chrono::milliseconds(250);
  times.round_trips = 200;
  return times;
}

const Step* step_of(const Cabling& cabling, const Round& round, std::size_t host) {
  const auto own = std::find_if(round.begin(), round.end(), [&](const Step& step) {
    const Cable& cable = cabling.cables[step.cable];
    return cable.a() == host || cable.b() == host;
  });
  return own == round.end() ? nullptr : &*own;
}

ProbeStep own_step(const Cabling& cabling, const Step& step, std::size_t host) {
  const Cable& cable = cabling.cables[step.cable];
  ProbeStep own{.rails = {}, .serves = cable.a() == host};
  own.speed_mbps = UINT32_MAX;
  for (std::size_t i = 0; i < cable.halves.size(); ++i) {
    if (step.half && *step.half != i) continue;
    const Half& half = cable.halves[i];
    own.rails.push_back(cabling.rail(own.serves ? half.a : half.b).name);
    own.mtu = half.mtu;
    own.speed_mbps = std::min(
        {own.speed_mbps, cabling.rail(half.a).speed_mbps, cabling.rail(half.b).speed_mbps});
  }
  return own;
}

Seen without_plugin() {
  Seen seen;
  seen.failed = "the plugin's start";
  seen.why = "the plugin does not load there";
  return seen;
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

bool CableMeasurer::run(const Cabling& cabling) {
  const Schedule plan = schedule(cabling, options_.one_machine);
  left_out_ = plan.left_out;
  for (std::size_t i = 0; i < plan.rounds.size(); ++i) {
    Round round;
    for (const Step& step : plan.rounds[i])
      if (wanted(cabling, step)) round.push_back(step);
    for (int tries = 0; tries < kTries && !round.empty(); ++tries) {
      show(cabling, round, i, plan.rounds.size());
      if (!run_round(cabling, round, tries > 0)) return false;
      std::erase_if(round, [&](const Step& step) {
        const auto of_step = [&](const Measured& each) {
          return each.step.cable == step.cable && each.step.half == step.half;
        };
        const auto found = std::find_if(measured_.begin(), measured_.end(), of_step);
        return found == measured_.end() || !is_slow(cabling, *found, options_.threshold);
      });
    }
  }
  if (bootstrap_.rank() == 0 && ::isatty(STDERR_FILENO) != 0) std::fputs("\r\033[K", stderr);
  return true;
}

// Returns false for a whole cable of which a half carries nothing: it would be waited for in vain.
bool CableMeasurer::wanted(const Cabling& cabling, const Step& step) const {
  if (step.half || cabling.cables[step.cable].halves.size() == 1) return true;
  return std::none_of(measured_.begin(), measured_.end(), [&](const Measured& each) {
    return each.step.cable == step.cable && !each.passed();
  });
}

void CableMeasurer::show(const Cabling& cabling, const Round& round, std::size_t number,
                         std::size_t rounds) const {
  if (bootstrap_.rank() != 0) return;
  const Step& first = round.front();
  const std::string name = cabling.text(cabling.cables[first.cable].halves[first.half.value_or(0)]);
  const bool terminal = ::isatty(STDERR_FILENO) != 0;
  std::fprintf(stderr, "%smesh_doctor: measuring %zu of %zu: %s%s%s", terminal ? "\r\033[K" : "",
               number + 1, rounds, name.c_str(), round.size() > 1 ? " and others" : "",
               terminal ? " ..." : "\n");
  std::fflush(stderr);
}

bool CableMeasurer::run_round(const Cabling& cabling, const Round& round, bool alone) {
  const auto rank = static_cast<std::size_t>(bootstrap_.rank());
  const Step* const step = step_of(cabling, round, rank);
  std::unique_ptr<Probe> probe;
  if (step != nullptr && api_ != nullptr) {
    ProbeStep own = own_step(cabling, *step, rank);
    own.alone = alone;
    probe = std::make_unique<Probe>(*api_, own, times_of(options_));
  }
  const auto handles = bootstrap_.all_gather(probe != nullptr ? probe->open() : "");
  if (!handles.ok()) return false;
  std::string own;
  if (step != nullptr) {
    const Cable& cable = cabling.cables[step->cable];
    const std::size_t peer = cable.a() == rank ? cable.b() : cable.a();
    own = to_text(probe != nullptr ? probe->run((*handles)[peer]) : without_plugin());
  }
  const auto all = bootstrap_.all_gather(own);
  if (!all.ok()) return false;
  for (const Step& each : round) {
    const Cable& cable = cabling.cables[each.cable];
    keep({each, seen_from((*all)[cable.a()]), seen_from((*all)[cable.b()])});
  }
  return true;
}

// Keeps the better one of two tries, or the one that failed, with the rates that the second try has
// seen of each direction alone.
void CableMeasurer::keep(const Measured& measured) {
  for (Measured& each : measured_) {
    if (each.step.cable != measured.step.cable || each.step.half != measured.step.half) continue;
    const Measured before = each;
    const bool better = measured.passed() && measured.slower_gbps() > before.slower_gbps();
    each = better || !measured.passed() ? measured : before;
    each.at_a.alone_gbps = measured.at_a.alone_gbps;
    each.at_b.alone_gbps = measured.at_b.alone_gbps;
    return;
  }
  measured_.push_back(measured);
}

}  // namespace mesh::doctor

#include "tests/sim/seed_run.h"

namespace mesh::sim {
namespace {
constexpr std::uint64_t kStartNs = 1'000'000;
}

Verdict run_seed(std::uint64_t seed, const Options& options, bool verbose) {
  Verdict verdict;
  std::atomic<std::uint64_t> clock_ns{kStartNs};
  Trace trace(clock_ns, verbose);
  try {
    const Scenario scenario = draw_scenario(seed, options);
    verdict.hosts = scenario.hosts.size();
    verdict.channels = scenario.channels.size();
    if (verbose && !scenario.fabric_text.empty()) std::printf("%s\n", scenario.fabric_text.c_str());
    World world(scenario, trace, clock_ns);
    world.run();
    verdict.tally = world.tally();
  } catch (const std::exception& error) {
    trace.violate(error.what());
  }
  verdict.violation = trace.violation();
  verdict.last_events = trace.violated() ? trace.last_events() : "";
  verdict.hash = trace.hash();
  verdict.events = trace.events();
  verdict.simulated_ns = clock_ns.load() - kStartNs;
  return verdict;
}

}  // namespace mesh::sim

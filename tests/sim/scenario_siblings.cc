// Draws several processes for a host (--siblings, with any other kind): they have its name, its
// ports and its cables, and each has its own engine, queue pairs and memory. One host of a world
// has up to eight, the others one or two. Some process dies, exits, stands still or loses a
// completion queue alone.

#include "tests/sim/scenario.h"

namespace mesh::sim {
namespace {
constexpr std::uint64_t kSiblingsStream = 20, kDeathsStream = 21, kMembersStream = 22;  // of Random
constexpr std::uint64_t kProcessesMax = 8, kProcessesUsual = 2;
constexpr std::size_t kManyHosts = 16;  // from so many hosts on, one has siblings

std::size_t any_process(const Scenario& scenario, Random& random, std::size_t host) {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < scenario.processes.size(); ++i)
    if (scenario.processes[i] == host) found.push_back(i);
  return found[random.below(found.size())];
}

bool strikes_alone(const FaultPlan& fault, Random& random) {
  using Kind = FaultPlan::Kind;
  if (fault.kind == Kind::HostExits || fault.kind == Kind::QueueDies) return true;
  if (fault.kind == Kind::HostLost) return !random.one_in(4);
  return fault.kind == Kind::HostPauses && random.one_in(2);
}
}  // namespace

std::size_t Scenario::sibling_number(std::size_t process) const {
  return static_cast<std::size_t>(
      std::count(processes.begin(), processes.begin() + static_cast<std::ptrdiff_t>(process),
                 processes[process]));
}

std::string Scenario::name_of(std::size_t process) const {
  const std::size_t number = sibling_number(process);
  return number == 0 ? fmt::format("{}", processes[process])
                     : fmt::format("{}.{}", processes[process], number);
}

void draw_siblings(Scenario& scenario) {
  Random random(scenario.seed, kSiblingsStream);
  const std::size_t hosts = scenario.hosts.size(), many = random.below(hosts);
  for (std::size_t host = 0; host < hosts; ++host) {
    if (host != many && hosts >= kManyHosts) continue;
    const std::uint64_t count = random.between(1, host == many ? kProcessesMax : kProcessesUsual);
    for (std::uint64_t i = 1; i < count; ++i) {
      scenario.contexts.push_back({.host = host, .process = scenario.processes.size()});
      scenario.processes.push_back(host);
    }
  }
}

std::size_t member_process(const Scenario& scenario, std::size_t host) {
  if (!scenario.options.siblings) return host;
  Random random(scenario.seed, kMembersStream + host);
  return any_process(scenario, random, host);
}

void draw_deaths(Scenario& scenario) {
  Random random(scenario.seed, kDeathsStream);
  for (FaultPlan& fault : scenario.faults)
    if (strikes_alone(fault, random)) fault.process = any_process(scenario, random, fault.host);
  if (scenario.options.level < Level::Faults || !random.one_in(3)) return;
  FaultPlan death;
  death.kind = FaultPlan::Kind::HostLost;
  death.at = random.below(scenario.messages() + 1);
  death.process = random.below(scenario.processes.size());
  death.host = scenario.processes[death.process];
  death.other = (death.host + 1) % scenario.hosts.size();
  scenario.faults.push_back(death);
  std::stable_sort(scenario.faults.begin(), scenario.faults.end(),
                   [](const FaultPlan& a, const FaultPlan& b) { return a.at < b.at; });
}

}  // namespace mesh::sim

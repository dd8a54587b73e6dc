// Draws the faults of a scenario, and when each strikes.

#include "tests/sim/scenario.h"

namespace mesh::sim {
namespace {

constexpr std::uint64_t kFaultsMax = 6;

void draw_slowness(Scenario& scenario, Random& random) {
  if (random.one_in(2)) scenario.reorder_ns = random.between(1 * kUs, 50 * kUs);
  if (random.one_in(4)) scenario.write_delay_ns = random.below(20 * kUs);
  scenario.control.delay_max_ns = random.between(10 * kUs, 300 * kUs);
  if (random.one_in(4)) scenario.control.pause_ns = random.below(50 * kMs);
  for (HostPlan& host : scenario.hosts) {
    if (random.one_in(4)) host.slowness = random.between(2, 40);
  }
}

void draw_aborts(Scenario& scenario, Random& random) {
  for (ContextPlan& context : scenario.contexts) {
    if (random.one_in(10)) context.abort_at = random.below(scenario.messages() + 1);
  }
}

FaultPlan::Kind draw_kind(Random& random) {
  using Kind = FaultPlan::Kind;
  constexpr Kind kKinds[] = {Kind::QueuePairError, Kind::QueuePairError, Kind::PortDown,
                             Kind::PortDown,       Kind::HostPauses,     Kind::ControlReset,
                             Kind::ControlHalfOpen};
  const Kind kind = kKinds[random.below(std::size(kKinds))];
  if (!random.one_in(12)) return kind;
  return random.one_in(2) ? Kind::HostLost : Kind::HostUnplugged;
}

FaultPlan draw_fault(const Scenario& scenario, Random& random) {
  FaultPlan fault;
  fault.kind = draw_kind(random);
  fault.at = random.below(scenario.messages() + 1);
  fault.host = random.below(scenario.hosts.size());
  fault.other = (fault.host + random.between(1, scenario.hosts.size() - 1)) % scenario.hosts.size();
  const std::vector<std::string>& nics = scenario.hosts[fault.host].nics;
  if (!random.one_in(8)) fault.nic = nics[random.below(nics.size())];  // else all of them
  fault.after_work_requests = random.one_in(2) ? random.below(12) : 0;
  fault.work_requests = random.one_in(4) ? random.between(2, 30) : 1;
  fault.duration_ns =
      random.one_in(3) ? random.between(1 * kMs, 3 * kSecond) : random.between(10 * kUs, 20 * kMs);
  return fault;
}

}  // namespace

FaultPlan draw_fault_of_nic(const Scenario& scenario, Random& random, FaultPlan::Kind kind) {
  FaultPlan fault;
  fault.kind = kind;
  fault.at = random.below(scenario.messages() + 1);
  fault.host = random.below(scenario.hosts.size());
  fault.other = (fault.host + 1) % scenario.hosts.size();
  const std::vector<std::string>& nics = scenario.hosts[fault.host].nics;
  fault.nic = nics[random.below(nics.size())];
  return fault;
}

void draw_faults(Scenario& scenario, Random& random) {
  const Level level = scenario.options.level;
  if (level >= Level::Slow) draw_slowness(scenario, random);
  if (level >= Level::Ends && random.one_in(2)) draw_aborts(scenario, random);
  if (scenario.hard) return draw_hard_faults(scenario, random);
  if (level < Level::Faults || random.one_in(4)) return;
  const std::uint64_t count = random.between(1, kFaultsMax);
  for (std::uint64_t i = 0; i < count; ++i) scenario.faults.push_back(draw_fault(scenario, random));
  std::sort(scenario.faults.begin(), scenario.faults.end(),
            [](const FaultPlan& a, const FaultPlan& b) { return a.at < b.at; });
  // Some faults come together, and some strike in the aftermath of the fault before.
  for (std::size_t i = 1; i < scenario.faults.size(); ++i) {
    if (random.one_in(2)) continue;
    FaultPlan& fault = scenario.faults[i];
    const FaultPlan& before = scenario.faults[i - 1];
    fault.at = before.at;
    if (random.one_in(2)) fault.gap_ns = random.below(random.one_in(2) ? 30 * kMs : 300 * kUs);
    if (random.one_in(2)) continue;
    fault.host = before.host;
    fault.other = before.other;
    if (!random.one_in(3)) fault.nic = before.nic;
  }
}

namespace {
// Kills or unplugs a host in the midst of an outage: nothing but its silence tells of its end.
void add_death(Scenario& scenario, Random& random) {
  FaultPlan& outage = scenario.faults.back();
  outage.duration_ns = 120 * kSecond;
  FaultPlan death = outage;
  death.kind = random.one_in(2) ? FaultPlan::Kind::HostLost : FaultPlan::Kind::HostUnplugged;
  death.gap_ns = random.below(90 * kSecond);
  scenario.faults.push_back(death);
}

}  // namespace

// A switch between management ports that restarts is silent for longer than any patience of the
// engine, while the cables work.
void draw_outages(Scenario& scenario) {
  constexpr std::uint64_t kOutagesStream = 11, kOutagesMax = 2, kLongest = 120;
  constexpr std::uint64_t kKilledOneIn = 4, kKilledRemainder = 2;
  Random random(scenario.seed, kOutagesStream);
  // Senders rest between their messages, so that some messages are sent late in an outage.
  constexpr std::uint64_t kBurstMax = 8, kRestMax = 15;
  for (ChannelPlan& channel : scenario.channels) {
    channel.burst = random.between(1, kBurstMax);
    channel.rest_ns = random.between(1, kRestMax) * kSecond;
  }
  const std::uint64_t count = random.between(1, kOutagesMax);
  for (std::uint64_t i = 0; i < count; ++i) {
    FaultPlan fault;
    fault.kind = FaultPlan::Kind::ControlOutage;
    fault.at = random.below(scenario.messages() + 1);
    fault.host = random.below(scenario.hosts.size());
    fault.other =
        (fault.host + random.between(1, scenario.hosts.size() - 1)) % scenario.hosts.size();
    fault.duration_ns = random.one_in(2) ? random.between(1, kLongest) * kSecond
                                         : random.between(1 * kMs, 1 * kSecond);
    scenario.faults.push_back(fault);
  }
  if (scenario.seed % kKilledOneIn == kKilledRemainder) add_death(scenario, random);
  std::stable_sort(scenario.faults.begin(), scenario.faults.end(),
                   [](const FaultPlan& a, const FaultPlan& b) { return a.at < b.at; });
}

}  // namespace mesh::sim

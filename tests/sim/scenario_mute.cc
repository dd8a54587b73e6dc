// Draws a card that hangs without a word (--mute): it takes work requests and completes none, for a
// moment, for longer than any bound, or for ever. In half of the seeds it takes no commands either,
// for a minute at most. In one seed in four every card works, and hosts stand still for longer than
// a silent path is kept: no path may be lost then.

#include "tests/sim/scenario.h"

namespace mesh::sim {
namespace {
constexpr std::uint64_t kMuteStream = 12;  // of Random
constexpr std::uint64_t kAllWorkOneIn = 4;
constexpr std::uint64_t kLongOneIn = 16, kLongRemainder = 9;
constexpr std::uint64_t kCommandMaxNs = 60 * kSecond;

FaultPlan draw_pause(const Scenario& scenario, Random& random, std::uint64_t longest_ns) {
  FaultPlan fault;
  fault.kind = FaultPlan::Kind::HostPauses;
  fault.at = random.below(scenario.messages() + 1);
  fault.host = random.below(scenario.hosts.size());
  fault.other = (fault.host + 1) % scenario.hosts.size();
  fault.duration_ns = random.between(1 * kMs, longest_ns);
  return fault;
}

FaultPlan draw_hang(const Scenario& scenario, Random& random) {
  FaultPlan fault = draw_fault_of_nic(scenario, random, FaultPlan::Kind::Mute);
  const std::uint64_t kind = random.below(3);
  if (kind == 0) fault.duration_ns = random.between(1 * kMs, 2 * kSecond);
  if (kind == 1) fault.duration_ns = random.between(3 * kSecond, 60 * kSecond);
  return fault;
}

// Returns the hosts that a NIC reaches over its cable, its switch, or routers.
std::set<int> peers_of(const soft::FabricFile& fabric, const soft::NicRef& nic) {
  const int at = fabric.nic(nic).link;
  std::set<int> peers;
  for (int i = 0; i < static_cast<int>(fabric.links.size()); ++i) {
    const soft::LinkSpec& link = fabric.links[static_cast<std::size_t>(i)];
    const int network = fabric.links[static_cast<std::size_t>(at)].network;
    if (i != at && (network < 0 || link.network != network)) continue;
    for (const soft::NicRef& end : link.ends) peers.insert(end.host);
  }
  return peers;
}
}  // namespace

std::vector<std::string> Scenario::doubles_of(std::size_t host, const std::string& nic) const {
  std::vector<std::string> doubles;
  soft::NicRef self;
  if (!fabric.find_nic(fabric.hosts[host].name, nic, &self)) return doubles;
  const std::set<int> peers = peers_of(fabric, self);
  for (int other = 0; other < static_cast<int>(hosts[host].nics.size()); ++other) {
    const soft::NicRef its{.host = self.host, .nic = other};
    if (other != self.nic && peers_of(fabric, its) == peers)
      doubles.push_back(fabric.nic(its).name);
  }
  return doubles;
}

void draw_mute(Scenario& scenario) {
  Random random(scenario.seed, kMuteStream);
  // The longer time is that of a flush, too: it has more milliseconds than 16 bits hold.
  const bool flushes_long = scenario.device_memory && scenario.seed % kLongOneIn == kLongRemainder;
  scenario.path_timeout_s = flushes_long ? 88 : 30;
  scenario.faults.clear();
  const bool all_work = scenario.seed % kAllWorkOneIn == 0;
  const std::uint64_t pauses = random.between(all_work ? 1 : 0, 2);
  for (std::uint64_t i = 0; i < pauses; ++i)
    scenario.faults.push_back(draw_pause(scenario, random, all_work ? 30 * kSecond : kSecond));
  if (!all_work) scenario.faults.push_back(draw_hang(scenario, random));
  scenario.wedges = !all_work && random.one_in(2);
  // A receiver's card may write what it has taken until it answers.
  FaultPlan& last = scenario.faults.back();
  if (scenario.wedges && last.duration_ns == 0) last.duration_ns = kCommandMaxNs;
  std::stable_sort(scenario.faults.begin(), scenario.faults.end(),
                   [](const FaultPlan& a, const FaultPlan& b) { return a.at < b.at; });
}

}  // namespace mesh::sim

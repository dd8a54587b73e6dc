// Draws a world that believes nothing good (--pessimistic): control runs over the cables, a cable
// is cut for longer than every patience while another one works, devices take their time, and other
// threads run wherever the control path has let go of a progress lock. Each of these is drawn by
// itself. In three seeds of eight, cards vanish and others come in their places, and some card
// hangs without a word. In one more a completion queue dies. No request may fail for them.

#include "tests/sim/scenario.h"

#include <algorithm>

namespace mesh::sim {

namespace {
constexpr std::uint64_t kPessimisticStream = 13;  // of Random
constexpr std::uint64_t kPassesMaxLog = 9;        // of the passes in which a device does nothing
constexpr std::uint64_t kCutsMax = 3, kCutMax = 60, kBurstMax = 8, kRestMax = 8;
// From the end of a cut to the next one: the path is back, and has been up for long enough.
constexpr std::uint64_t kBetweenCutsNs = 12 * kSecond;
constexpr std::uint64_t kCardsStream = 17;                 // of Random
constexpr std::uint64_t kQueuesStream = 18;                // of Random
constexpr std::uint64_t kOnlyCardAwayMaxNs = 2 * kSecond;  // its link waits for it

// Chooses by the seed's number, so that what the other seeds draw stays as it was.
bool has_cards(std::uint64_t seed) { return seed % 4 == 0 || seed % 8 == 3; }
bool has_dead_queue(std::uint64_t seed) { return seed % 8 == 1; }

void add_cut(Scenario& scenario, Random& random) {
  FaultPlan fault = draw_fault_of_nic(scenario, random, FaultPlan::Kind::PortDown);
  fault.duration_ns = random.one_in(2) ? random.between(1 * kMs, 1 * kSecond)
                                       : random.between(1, kCutMax) * kSecond;
  if (scenario.has_double(fault.host, fault.nic)) scenario.faults.push_back(fault);
}

// Has the card of a port go away with the cable, as some machines do, and mostly that of the other
// end, too.
void take_card(FaultPlan& fault, Random& random) {
  fault.kind = FaultPlan::Kind::CardReplaced;
  fault.far_end = static_cast<FaultPlan::FarEnd>(random.below(3));
  fault.far_duration_ns = random.one_in(2) ? fault.duration_ns : random.between(1, 2 * kSecond);
}

void draw_cards(Scenario& scenario) {
  Random random(scenario.seed, kCardsStream);
  for (FaultPlan& fault : scenario.faults) {
    // No card that hangs flushes what it has written into a GPU's memory.
    if (!scenario.device_memory && random.one_in(5))
      fault.kind = FaultPlan::Kind::Mute;
    else if (!random.one_in(4))
      take_card(fault, random);
  }
  if (!random.one_in(3)) return;
  // A card that is the only one on a link.
  FaultPlan fault = draw_fault_of_nic(scenario, random, FaultPlan::Kind::CardReplaced);
  fault.duration_ns = random.between(1 * kMs, kOnlyCardAwayMaxNs);
  take_card(fault, random);
  scenario.faults.push_back(fault);
}

void draw_dead_queue(Scenario& scenario) {
  Random random(scenario.seed, kQueuesStream);
  const FaultPlan fault = draw_fault_of_nic(scenario, random, FaultPlan::Kind::QueueDies);
  if (scenario.has_double(fault.host, fault.nic)) scenario.faults.push_back(fault);
}
}  // namespace

void draw_pessimistic(Scenario& scenario) {
  Random random(scenario.seed, kPessimisticStream);
  scenario.control_over_cables = !random.one_in(4);
  scenario.switches_one_in = random.one_in(4) ? 0 : random.between(1, 8);
  scenario.path_timeout_s = 30;
  scenario.faults.clear();
  for (HostPlan& host : scenario.hosts) host.slowness = std::min<std::uint64_t>(host.slowness, 4);
  for (ChannelPlan& channel : scenario.channels) {
    channel.burst = random.between(1, kBurstMax);
    channel.rest_ns = random.between(1, kRestMax) * kSecond;
  }
  for (std::uint64_t cuts = random.between(1, kCutsMax); cuts != 0; --cuts)
    add_cut(scenario, random);
  if (has_cards(scenario.seed)) draw_cards(scenario);
  if (has_dead_queue(scenario.seed)) draw_dead_queue(scenario);
  std::stable_sort(scenario.faults.begin(), scenario.faults.end(),
                   [](const FaultPlan& a, const FaultPlan& b) { return a.at < b.at; });
  for (std::size_t i = 1; i < scenario.faults.size(); ++i)
    scenario.faults[i].gap_ns = scenario.faults[i - 1].lasts_ns() + kBetweenCutsNs;
  if (!random.one_in(4))
    scenario.device_works_one_in = std::uint64_t{1} << random.below(kPassesMaxLog);
}

}  // namespace mesh::sim

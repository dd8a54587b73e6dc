// Draws a world that believes nothing good (--pessimistic): control runs over the cables, a cable
// is cut for longer than every patience while another one works, devices take their time, and other
// threads run wherever the control path has let go of a progress lock. Each of these is drawn by
// itself. In three seeds of eight, cards vanish and others come in their places, and some card
// hangs without a word. In one more a completion queue dies. In two of sixteen a card takes no
// commands for up to a minute while a port beside it flaps, in one a communicator begins while a
// card is replaced, and in one no NIC reads its host's memory while its port is down. No request
// may fail for them.

#include "tests/sim/scenario.h"

namespace mesh::sim {
namespace {
constexpr std::uint64_t kPessimisticStream = 13;  // of Random
constexpr std::uint64_t kPassesMaxLog = 9;        // of the passes in which a device does nothing
constexpr std::uint64_t kCutsMax = 3, kCutMax = 60, kBurstMax = 8, kRestMax = 8;
// From the end of a cut to the next one: the path is back, and has been up for long enough.
constexpr std::uint64_t kBetweenCutsNs = 12 * kSecond;
constexpr std::uint64_t kCardsStream = 17;   // of Random
constexpr std::uint64_t kQueuesStream = 18;  // of Random
constexpr std::uint64_t kSickStream = 19, kBeginsStream = 20;
constexpr std::uint64_t kOnlyCardAwayMaxNs = 2 * kSecond;  // its link waits for it

// Chooses by the seed's number, so that what the other seeds draw stays as it was.
bool has_cards(std::uint64_t seed) { return seed % 4 == 0 || seed % 8 == 3; }
bool has_dead_queue(std::uint64_t seed) { return seed % 8 == 1; }
bool has_sick_card(std::uint64_t seed) { return seed % 16 == 2 || seed % 16 == 14; }
bool has_beginner(std::uint64_t seed) { return seed % 16 == 15; }
bool needs_ports(std::uint64_t seed) { return seed % 16 == 13; }
}  // namespace

bool wants_doubles(std::uint64_t seed, const Options& options) {
  return options.pessimistic && (has_sick_card(seed) || has_beginner(seed) || needs_ports(seed));
}

namespace {
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

// Returns a fault of the NIC that a channel names, if others reach the same peers; without a name:
// the draws found none.
FaultPlan draw_fault_of_channel(const Scenario& scenario, Random& random) {
  constexpr int kDraws = 16;
  for (int i = 0; i < kDraws && !scenario.channels.empty(); ++i) {
    const ChannelPlan& channel = scenario.channels[random.below(scenario.channels.size())];
    FaultPlan fault = draw_fault_of_nic(scenario, random, FaultPlan::Kind::PortDown);
    fault.host = scenario.contexts[channel.from].host;
    const std::vector<std::string>& nics = scenario.hosts[fault.host].nics;
    fault.nic = nics[channel.device < 0 ? random.below(nics.size())
                                        : static_cast<std::size_t>(channel.device)];
    if (scenario.has_double(fault.host, fault.nic)) return fault;
  }
  return {};
}

// Moves the fault to the other end of its cable, if there is one.
void move_to_far_end(const Scenario& scenario, FaultPlan& fault) {
  soft::NicRef far;
  const std::string& name = scenario.fabric.hosts[fault.host].name;
  if (!scenario.fabric.other_end(name, fault.nic, &far)) return;
  fault.host = static_cast<std::size_t>(far.host);
  fault.nic = scenario.fabric.nic(far).name;
}

// A card takes no commands, which mostly is a spare one, and ports of a card beside it flap.
void draw_sick_card(Scenario& scenario) {
  constexpr std::uint64_t kFlapsMax = 4;
  Random random(scenario.seed, kSickStream);
  if (!random.one_in(4)) name_cables(scenario);
  FaultPlan flap = draw_fault_of_channel(scenario, random);
  if (flap.nic.empty() || scenario.device_memory) return;
  FaultPlan sick = flap;
  const std::vector<std::string> beside = scenario.doubles_of(flap.host, flap.nic);
  sick.nic = beside[random.below(beside.size())];
  if (random.one_in(4)) std::swap(sick.nic, flap.nic);
  sick.kind = FaultPlan::Kind::Mute;
  sick.duration_ns = random.one_in(2) ? 60 * kSecond : random.between(1, 60) * kSecond;
  if (random.one_in(2)) move_to_far_end(scenario, sick);
  scenario.wedges = true;
  scenario.faults = {sick};
  for (std::uint64_t flaps = random.between(1, kFlapsMax); flaps != 0; --flaps) {
    FaultPlan next = flap;
    next.duration_ns = random.between(1 * kMs, 1 * kSecond);
    next.gap_ns = scenario.faults.size() == 1 && random.one_in(2) ? random.below(1 * kSecond)
                                                                  : random.between(2, 12) * kSecond;
    if (random.one_in(2)) move_to_far_end(scenario, next);
    scenario.faults.push_back(next);
  }
}

// Has a communicator begin in some step of the first replacement.
void draw_beginner(Scenario& scenario) {
  if (scenario.faults.empty()) return;
  Random random(scenario.seed, kBeginsStream);
  FaultPlan& first = scenario.faults.front();
  if (!random.one_in(4)) first.duration_ns = random.between(1 * kMs, 1 * kSecond);
  for (FaultPlan& fault : scenario.faults) take_card(fault, random);
  std::vector<std::size_t> there;
  for (std::size_t i = 0; i < scenario.contexts.size(); ++i)
    if (scenario.contexts[i].host == first.host || random.one_in(3)) there.push_back(i);
  const std::size_t chosen = there[random.below(there.size())];
  ContextPlan& beginner = scenario.contexts[chosen];
  beginner.begins_with = 0;
  beginner.begins_before = random.one_in(2);
  beginner.begins_ns = random.one_in(3)   ? 0
                       : random.one_in(2) ? random.below(first.lasts_ns())
                                          : first.lasts_ns() + random.below(500 * kMs);
  std::uint64_t before = 0;  // messages
  for (const ChannelPlan& channel : scenario.channels)
    if (channel.from != chosen && channel.to != chosen) before += channel.sends.size();
  first.at = std::min(first.at, random.below(before / 2 + 1));
}

void draw_needs_of_ports(Scenario& scenario) {
  for (soft::HostSpec& host : scenario.fabric.hosts)
    for (soft::NicSpec& nic : host.nics) nic.loop_back_needs_port = true;
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
  if (has_sick_card(scenario.seed)) draw_sick_card(scenario);
  if (has_beginner(scenario.seed)) draw_beginner(scenario);
  if (needs_ports(scenario.seed)) draw_needs_of_ports(scenario);
  if (!random.one_in(4))
    scenario.device_works_one_in = std::uint64_t{1} << random.below(kPassesMaxLog);
}

}  // namespace mesh::sim

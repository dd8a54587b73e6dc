// Draws hosts that are not neighbours (--relays): a line of three or four, a ring of four with its
// diagonals through one another, a star. Neighbours have a channel each, as in a ring of NCCL's, so
// that every host knows its neighbours. The rings of middle hosts are small and often full: in one
// seed of eight the rings of both directions at once, before slow hosts. Some host exits or closes
// its communicator first, some refuses to relay or has little memory for it. With --shapes the
// hosts form a ring of five or six or a torus, with up to three cables for each pair of neighbours;
// with --oneshot half of them form a ring of four or a cube. With --strange no neighbours have a
// channel: hosts find those between by questions over their cables, under a secret of the job.

#include "tests/sim/scenario.h"

namespace mesh::sim {
namespace {

constexpr std::uint64_t kCablingStream = 7, kRelaysStream = 8, kBothWaysStream = 9,
                        kExitStream = 19;  // of Random
constexpr int kLittleMib = 3;
constexpr std::uint32_t kFewSlots = 16, kManyRequests = 64;
constexpr std::uint64_t kSmallMax = 500;
constexpr std::uint64_t kCubeOneIn = 6;  // it takes long

// Returns whether the seed fills the rings: one in eight, and none whose writes overtake one
// another.
bool is_full(const Scenario& scenario) {
  return !scenario.options.both_ways && !scenario.options.shapes && scenario.seed % 8 == 4 &&
         scenario.options.level >= Level::Slow;
}

std::size_t hosts_of(Cabling cabling) {
  switch (cabling) {
    case Cabling::All:
    case Cabling::Line3: return 3;
    case Cabling::Line4:
    case Cabling::Ring4: return 4;
    case Cabling::Star5:
    case Cabling::Ring5: return 5;
    case Cabling::Ring6:
    case Cabling::Torus6: return 6;
    case Cabling::Cube8: break;
  }
  return 8;
}

void keep(ChannelPlan& channel) {
  channel.keeps = true;
  channel.after = SIZE_MAX;
  channel.ending = Ending::Orderly;
}

std::size_t context_on(const Scenario& scenario, Random& random, std::size_t host) {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < scenario.contexts.size(); ++i) {
    if (scenario.contexts[i].host == host) found.push_back(i);
  }
  return found[random.below(found.size())];
}

void add_keeper(Scenario& scenario, Random& random, std::size_t a, std::size_t b) {
  const bool turned = random.one_in(2);
  keep(add_channel(scenario, random, context_on(scenario, random, turned ? b : a),
                   context_on(scenario, random, turned ? a : b)));
}

void add_relayed(Scenario& scenario, Random& random, std::size_t a, std::size_t b) {
  ChannelPlan& channel = add_channel(scenario, random, context_on(scenario, random, a),
                                     context_on(scenario, random, b));
  channel.relayed = true;
  // A channel that stays until the relayed channels are over cannot come before one of them.
  if (channel.after != SIZE_MAX && scenario.channels[channel.after].keeps) channel.after = SIZE_MAX;
}

// A process knows the neighbours of its host by its own links.
void add_keepers_of_processes(Scenario& scenario, Random& random) {
  if (scenario.options.strange) return;
  const std::size_t contexts = scenario.contexts.size();
  std::set<std::size_t> seen;  // processes
  for (std::size_t i = 0; i < contexts; ++i) {
    if (!seen.insert(scenario.contexts[i].process).second) continue;
    for (std::size_t host = 0; host < scenario.hosts.size(); ++host) {
      if (host == scenario.contexts[i].host || !scenario.cabled(scenario.contexts[i].host, host))
        continue;
      const std::size_t there = context_on(scenario, random, host);
      const bool turned = random.one_in(2);
      keep(add_channel(scenario, random, turned ? there : i, turned ? i : there));
    }
  }
}

// Some processes of a host talk to one another, through its ports.
void add_sibling_channels(Scenario& scenario, Random& random) {
  for (std::size_t i = 0; i < scenario.contexts.size(); ++i) {
    const std::size_t other = context_on(scenario, random, scenario.contexts[i].host);
    if (scenario.contexts[i].process == scenario.contexts[other].process || random.one_in(2))
      continue;
    ChannelPlan& channel = add_channel(scenario, random, i, other);
    if (channel.after != SIZE_MAX && scenario.channels[channel.after].keeps)
      channel.after = SIZE_MAX;
  }
}

// Adds channels whose messages may go both ways round.
void add_neighbours(Scenario& scenario, Random& random, std::size_t a, std::size_t b) {
  for (std::uint64_t i = random.between(1, 3); i != 0; --i) {
    const bool turned = random.one_in(2);
    ChannelPlan& channel =
        add_channel(scenario, random, context_on(scenario, random, turned ? b : a),
                    context_on(scenario, random, turned ? a : b));
    if (channel.after != SIZE_MAX && scenario.channels[channel.after].keeps)
      channel.after = SIZE_MAX;
  }
}

// Gives the channel small messages, with as many requests open as there are slots.
void crowd(Scenario& scenario, Random& random, ChannelPlan& channel) {
  channel.after = SIZE_MAX;
  channel.sends.clear();
  channel.receives.clear();
  for (std::uint64_t i = random.between(kManyRequests, 2 * kManyRequests); i != 0; --i) {
    const std::uint64_t bytes = random.between(1, kSmallMax);
    channel.receives.push_back({.message = channel.sends.size(), .room = bytes});
    channel.sends.push_back({.bytes = bytes, .source = random.below(channel.source_bytes - bytes)});
  }
  channel.ends_at = std::min(channel.ends_at, channel.sends.size());
  channel.sends_open = channel.receives_open = scenario.policy.slots;
}

// Piles up messages, and the CTS entries that ask for more, before slow hosts between the ends of a
// line, so that the rings of both directions are full at once.
void fill_rings(Scenario& scenario, Random& random) {
  TransferPolicy& policy = scenario.policy;
  policy.slots = policy.rq_depth = kManyRequests;
  policy.sq_depth = kFewSlots;
  policy.signal_interval = std::min(policy.signal_interval, policy.sq_depth);
  policy.express_bytes = kSmallMax;
  const std::size_t last = scenario.hosts.size() - 1;
  for (std::size_t host = 1; host < last; ++host)
    scenario.hosts[host].slowness = random.between(10, 40);
  for (ChannelPlan& channel : scenario.channels) {
    const std::size_t from = scenario.contexts[channel.from].host;
    const std::size_t to = scenario.contexts[channel.to].host;
    if (channel.relayed && from + to == last && from % last == 0) crowd(scenario, random, channel);
  }
}

void draw_both_ways(Scenario& scenario) {
  Random random(scenario.seed, kBothWaysStream);
  scenario.rails = "auto";
  scenario.both_ways_bytes = random.one_in(2) ? 0 : random.between(1, 50'000);
  // The stripes are so small that most messages have several.
  scenario.policy.stripe_bytes = kStripeAlign * random.between(1, 8);
  scenario.policy.express_bytes =
      std::min<std::uint64_t>(scenario.policy.express_bytes, scenario.policy.stripe_bytes);
}

FaultPlan draw_exit(const Scenario& scenario, Random& random) {
  FaultPlan fault;
  fault.kind = FaultPlan::Kind::HostExits;
  fault.host = random.below(scenario.hosts.size());
  fault.at = random.below(scenario.messages() + 1);
  fault.finalizes = Random(scenario.seed, kExitStream).one_in(2);
  return fault;
}

// A process that exits with its communicators open is no excuse for those whose messages it
// carries, unless something else is.
void let_all_else_work(Scenario& scenario) {
  scenario.faults.clear();
  scenario.leaves_early = false;
  for (ContextPlan& context : scenario.contexts) context.abort_at = UINT64_MAX;
  for (HostPlan& host : scenario.hosts) {
    host.relays = true;
    host.relay_mib = HostPlan{}.relay_mib;
  }
}

}  // namespace

bool Scenario::cabled(std::size_t host, std::size_t other) const {
  const std::size_t near = std::min(host, other), far = std::max(host, other);
  switch (cabling) {
    case Cabling::All: break;
    case Cabling::Line3:
    case Cabling::Line4: return far - near <= 1;
    case Cabling::Ring4: return (far - near) % 2 == 1 || far == near;
    case Cabling::Star5: return near == 0 || far == near;
    case Cabling::Ring5: return far - near <= 1 || far - near == 4;
    case Cabling::Ring6: return far - near <= 1 || far - near == 5;
    case Cabling::Torus6: return near / 3 == far / 3 || far - near == 3;  // two entries of three
    case Cabling::Cube8: return std::popcount(near ^ far) <= 1;
  }
  return true;
}

void draw_cabling(Scenario& scenario) {
  Random random(scenario.seed, kCablingStream);
  scenario.cabling = static_cast<Cabling>(random.between(1, 4));
  if (is_full(scenario)) scenario.cabling = Cabling::Line4;
  if (scenario.options.shapes)
    scenario.cabling = static_cast<Cabling>(random.between(5, 7));  // from Ring5 on
  if (scenario.options.both_ways)
    scenario.cabling = random.one_in(2) ? Cabling::Ring4 : Cabling::All;
  // A group takes steps along the cables of a square or a cube, and of nothing else.
  if (scenario.options.one_shot && random.one_in(2))
    scenario.cabling = random.one_in(kCubeOneIn) ? Cabling::Cube8 : Cabling::Ring4;
  scenario.hosts.clear();
  scenario.hosts.resize(hosts_of(scenario.cabling));
}

void draw_relay_channels(Scenario& scenario, Random& random) {
  const std::size_t hosts = scenario.hosts.size();
  for (std::size_t a = 0; a < hosts; ++a) {
    for (std::size_t b = a + 1; b < hosts; ++b) {
      if (!scenario.cabled(a, b)) continue;
      if (!scenario.options.strange && !scenario.options.siblings)
        add_keeper(scenario, random, a, b);
      if (scenario.options.both_ways) add_neighbours(scenario, random, a, b);
    }
  }
  if (scenario.options.siblings) add_keepers_of_processes(scenario, random);
  // Most pairs of hosts talk both ways, and the pairs farthest apart always do.
  for (std::size_t a = 0; a < hosts; ++a) {
    for (std::size_t b = 0; b < hosts; ++b) {
      if (scenario.cabled(a, b)) continue;
      const bool always = (a == 0 || b == 0) && a + b == hosts - 1;
      if (always || random.one_in(2)) add_relayed(scenario, random, a, b);
      if (random.one_in(6)) add_relayed(scenario, random, a, b);
    }
  }
  if (scenario.options.siblings) add_sibling_channels(scenario, random);
}

void draw_relays(Scenario& scenario) {
  Random random(scenario.seed, kRelaysStream);
  const Level level = scenario.options.level;
  scenario.rails = random.one_in(4) ? "all" : "auto";
  scenario.leaves_early = level >= Level::Ends && random.one_in(4);
  if (random.one_in(2)) {  // rings that hold a few work requests
    scenario.policy.sq_depth = 16u << random.below(3);
    scenario.policy.signal_interval =
        std::min(scenario.policy.signal_interval, scenario.policy.sq_depth);
    scenario.policy.wr_bytes = kStripeAlign * random.between(2, 4);
  }
  if (is_full(scenario)) fill_rings(scenario, random);
  if (random.one_in(3)) {
    for (soft::LinkSpec& link : scenario.fabric.links)
      link.gbps = static_cast<double>(random.between(1, 4));
  }
  if (scenario.options.both_ways) draw_both_ways(scenario);
  if (level < Level::Ends) return;
  HostPlan& host = scenario.hosts[random.below(scenario.hosts.size())];
  if (random.one_in(8)) host.relays = false;
  if (random.one_in(6)) host.relay_mib = static_cast<int>(random.between(1, kLittleMib));
  if (!random.one_in(4)) return;
  const FaultPlan exit = draw_exit(scenario, random);
  if (!exit.finalizes) let_all_else_work(scenario);
  scenario.faults.push_back(exit);
  std::stable_sort(scenario.faults.begin(), scenario.faults.end(),
                   [](const FaultPlan& a, const FaultPlan& b) { return a.at < b.at; });
}

}  // namespace mesh::sim

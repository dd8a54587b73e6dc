// Channels and their messages.

#include "tests/sim/memory.h"
#include "tests/sim/scenario.h"

namespace mesh::sim {
namespace {

constexpr std::uint64_t kLargeMax = 40'000;
constexpr std::uint64_t kTagsMax = 4;
// Sends and receives of different tags change places within a block of at most this length.
constexpr std::uint64_t kBlockMax = 12;
constexpr std::size_t kCrowd = 16;  // from so many hosts on, channels carry little

std::uint64_t draw_bytes(const TransferPolicy& policy, Random& random, std::uint64_t most) {
  const std::array<std::uint64_t, 5> edges{128, policy.express_bytes, policy.stripe_bytes,
                                           policy.wr_bytes, policy.inline_bytes};
  std::uint64_t bytes = 0;
  switch (random.below(8)) {
    case 0: return 0;
    case 1: bytes = 1; break;
    case 2:
    case 3:
      bytes = edges[random.below(edges.size())] + random.between(0, 2);
      break;  // one below, at, one above
    case 4: bytes = random.below(20 * policy.wr_bytes); break;
    default: bytes = random.below(3000); break;
  }
  if (bytes > 1) --bytes;
  return std::min(bytes, most);
}

// Draws another order for each block's receives than its sends have; receives of one tag keep
// theirs.
void order_receives(ChannelPlan& channel, Random& random, std::uint64_t block) {
  for (std::size_t from = 0; from < channel.sends.size(); from += block) {
    const std::size_t end = std::min<std::size_t>(from + block, channel.sends.size());
    std::vector<std::size_t> left;
    for (std::size_t i = from; i < end; ++i) left.push_back(i);
    while (!left.empty()) {
      const std::uint32_t tag = channel.sends[left[random.below(left.size())]].tag;
      const auto first = std::find_if(left.begin(), left.end(),
                                      [&](std::size_t i) { return channel.sends[i].tag == tag; });
      channel.receives.push_back(
          {.message = *first, .room = channel.sends[*first].bytes, .tag = tag});
      left.erase(first);
    }
  }
}

void draw_rooms(ChannelPlan& channel, Random& random) {
  const bool mistaken = random.one_in(12);
  for (Wanted& wanted : channel.receives) {
    if (random.one_in(3)) wanted.room += random.below(3000);
    if (mistaken && wanted.room > 1 && random.one_in(10)) wanted.room = random.below(wanted.room);
  }
}

void draw_ending(ChannelPlan& channel, Random& random) {
  if (!random.one_in(4)) return;
  channel.ending = static_cast<Ending>(random.between(1, 5));
  channel.ends_at = random.below(channel.sends.size() + 1);
}

ChannelPlan draw_channel(const Scenario& scenario, Random& random) {
  ChannelPlan channel;
  const bool crowd = scenario.hosts.size() >= kCrowd;
  const std::uint64_t most = crowd ? 600 : kLargeMax;
  const std::uint64_t count = crowd              ? random.between(1, 4)
                              : random.one_in(6) ? random.between(40, 120)
                                                 : random.between(1, 40);
  const std::uint64_t tags = random.one_in(2) ? 1 : random.between(2, kTagsMax);
  const std::uint64_t block = tags == 1 ? 1 : random.between(2, kBlockMax);
  channel.source_bytes = 2 * most;
  channel.source = random.below(kSourceBytes - channel.source_bytes);
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t bytes = draw_bytes(scenario.policy, random, most);
    channel.sends.push_back({.bytes = bytes,
                             .source = random.below(channel.source_bytes - bytes),
                             .tag = static_cast<std::uint32_t>(random.below(tags))});
  }
  order_receives(channel, random, block);
  draw_rooms(channel, random);
  channel.sends_open = random.between(block, 40);
  channel.receives_open = random.between(block, 40);
  channel.regions = random.between(1, 3);
  if (random.one_in(3)) channel.reregister_every = random.between(2, 8);
  if (scenario.options.level >= Level::Ends) draw_ending(channel, random);
  if (scenario.hard) harden_channel(channel, random);
  return channel;
}

}  // namespace

ChannelPlan& add_channel(Scenario& scenario, Random& random, std::size_t from, std::size_t to) {
  ChannelPlan channel = draw_channel(scenario, random);
  channel.from = from;
  channel.to = to;
  // Another channel of the same sender may use the same memory: then both share one registration.
  for (const ChannelPlan& other : scenario.channels) {
    if (other.from != from || !random.one_in(3)) continue;
    channel.source = other.source;
    channel.source_bytes = other.source_bytes;
  }
  if (!scenario.channels.empty() && random.one_in(4))
    channel.after = random.below(scenario.channels.size());
  return scenario.channels.emplace_back(std::move(channel));
}

namespace {

// Adds channels from every context to the next few.
void add_neighbours(Scenario& scenario, Random& random, std::uint64_t reach) {
  const std::size_t contexts = scenario.contexts.size();
  for (std::size_t from = 0; from < contexts; ++from) {
    for (std::uint64_t i = 1; i <= reach; ++i)
      add_channel(scenario, random, from, (from + i) % contexts);
  }
}

}  // namespace

void draw_channels(Scenario& scenario, Random& random) {
  const std::size_t contexts = scenario.contexts.size();
  if (scenario.options.all_to_all) return add_neighbours(scenario, random, contexts - 1);
  if (scenario.hosts.size() >= kCrowd)
    return add_neighbours(scenario, random, random.between(2, 6));
  const std::uint64_t count = random.between(1, 3 * contexts);
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::size_t from = random.below(contexts);
    std::size_t to = random.below(contexts);
    if (to == from && !random.one_in(3)) to = (to + 1) % contexts;  // sometimes to itself
    add_channel(scenario, random, from, to);
    if (random.one_in(4)) add_channel(scenario, random, from, to);
    if (random.one_in(4)) add_channel(scenario, random, to, from);
  }
}

}  // namespace mesh::sim

// Draws networks in which an earlier event may be seen after a later one: acknowledgements that
// take longer than a frame of the control path, and writes of one queue pair that overtake one
// another. The seed's number decides which it has, so that all else that it draws stays as it was.

#include "tests/sim/scenario.h"

namespace mesh::sim {
namespace {
constexpr std::uint64_t kAdaptiveStream = 3, kFarStream = 4, kDisorderStream = 5, kNearStream = 10,
                        kTimedStream = 15;  // of Random
constexpr std::uint32_t kShortWindow = 16, kFewSlots = 32;
constexpr std::uint64_t kSmallMax = 60;

// Reduces the world to one channel of small messages, with as many requests open as slots.
ChannelPlan& keep_one_channel(Scenario& scenario, Random& random) {
  scenario.channels.resize(1);
  scenario.faults.clear();
  for (ContextPlan& context : scenario.contexts) context.abort_at = UINT64_MAX;
  ChannelPlan channel;
  channel.from = 0;
  channel.to = 1;
  channel.source = scenario.channels[0].source;
  channel.source_bytes = scenario.channels[0].source_bytes;
  const std::uint64_t count = kShortWindow * random.between(10, 40);
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t bytes = random.between(1, kSmallMax);
    channel.sends.push_back({.bytes = bytes, .source = random.below(channel.source_bytes - bytes)});
    channel.receives.push_back({.message = i, .room = bytes});
  }
  channel.sends_open = channel.receives_open = scenario.policy.slots;
  scenario.policy.express_bytes = kSmallMax;
  return scenario.channels[0] = std::move(channel);
}

// Makes messages come in bursts as long as the window. Between two bursts nothing is under way but
// what the network holds back, and nobody looks at rings and windows.
void make_bursts(Scenario& scenario, Random& random) {
  ChannelPlan& channel = keep_one_channel(scenario, random);
  channel.burst = kShortWindow;
  channel.rest_ns = 2 * scenario.out_of_order_ns;
}

// Loses paths of the channel again and again, so that its credits are written again.
void make_losses(Scenario& scenario, Random& random) {
  const std::uint64_t messages = keep_one_channel(scenario, random).sends.size();
  const std::size_t host = scenario.contexts[random.below(2)].host;
  const std::vector<std::string>& nics = scenario.hosts[host].nics;
  scenario.path_timeout_s = 30;
  for (std::uint64_t at = random.between(1, 60); at < messages; at += random.between(30, 90)) {
    FaultPlan fault;
    fault.kind = random.one_in(2) ? FaultPlan::Kind::QueuePairError : FaultPlan::Kind::PortDown;
    fault.at = at;
    fault.host = host;
    fault.nic = nics[random.below(std::min<std::size_t>(nics.size(), 2))];
    fault.duration_ns = random.between(20 * kUs, 200 * kUs);
    scenario.faults.push_back(fault);
  }
}

}  // namespace

// Lets a CLOSE overtake the acknowledgements of the messages that it has counted, in one seed in
// ten.
void draw_distance(Scenario& scenario) {
  if (scenario.seed % 10 != 9) return;
  Random random(scenario.seed, kFarStream);
  for (soft::LinkSpec& link : scenario.fabric.links)
    link.delay_ns = random.between(50 * kUs, 400 * kUs);
  scenario.control.delay_max_ns = random.between(6 * kUs, 20 * kUs);
  scenario.control.pause_ns = 0;
}

// Lets writes overtake one another, in one seed in four or in all of them. In half of these seeds
// some writes land twice. In the other half no engine may have to write its credits again, so no
// index of a channel is used a second time either.
void draw_disorder(Scenario& scenario) {
  const Options& options = scenario.options;
  const bool chosen = options.reorder || scenario.seed % 4 == 2;
  if (options.level < Level::Slow || !chosen) return;
  Random random(scenario.seed, kDisorderStream);
  // Two rows of one place are on their way together only where rings and windows are short.
  scenario.out_of_order_ns = random.between(50 * kUs, 5 * kMs);
  scenario.policy.rq_depth = kShortWindow;
  scenario.policy.slots = kFewSlots;
  const std::uint64_t kind = scenario.seed / 4 % 4;
  scenario.repeats = kind % 2 == 0;
  const bool free = options.hosts == 0 && !options.all_to_all && !options.relays && !scenario.hard;
  if (free && kind == 0) return make_bursts(scenario, random);
  if (free && kind == 1 && options.level == Level::Faults) return make_losses(scenario, random);
  if (scenario.repeats) return;
  for (ChannelPlan& channel : scenario.channels) channel.after = SIZE_MAX;
}

// Lets small messages go over several queue pairs, in two seeds in three.
void draw_near(Scenario& scenario) {
  if (scenario.seed % 3 == 0) return;
  Random random(scenario.seed, kNearStream);
  scenario.policy.near_bytes = random.below(scenario.policy.express_bytes / 2 + 1);
}

// Measures latencies so often that the writes for it meet full queues, and loss in all its steps.
void draw_timed(Scenario& scenario) {
  Random random(scenario.seed, kTimedStream);
  scenario.timed_ns = random.between(20 * kUs, random.one_in(2) ? 200 * kUs : 20 * kMs);
}

// Turns adaptive routing on, in one seed in seven.
void draw_adaptive_routing(Scenario& scenario) {
  if (scenario.seed % 7 != 5) return;
  Random random(scenario.seed, kAdaptiveStream);
  scenario.adaptive_routing = 1;
  scenario.ar_threshold = static_cast<int>(random.below(random.one_in(2) ? 200 : 3000));
}

}  // namespace mesh::sim

#include "tests/sim/scenario.h"

namespace mesh::sim {
namespace {

constexpr std::size_t kHostsUsual = 4, kHostsSome = 8, kHostsMany = 64;
constexpr std::uint64_t kManyOneIn = 400;  // seeds with many hosts take long

std::size_t draw_hosts(Random& random, const Options& options) {
  const bool many = random.one_in(kManyOneIn);
  const std::size_t drawn =
      random.one_in(4) ? random.between(2, kHostsSome) : random.between(2, kHostsUsual);
  if (options.hosts != 0) return options.hosts;
  return many ? random.between(kHostsSome + 1, kHostsMany) : drawn;
}

// Draws devices that take their time for queue pairs, so that paths are lost meanwhile.
void draw_bring_ups(Scenario& scenario) {
  constexpr std::array<std::uint64_t, 4> kNs{0, 300'000, 5'000'000, 60'000'000};
  std::uint64_t number = scenario.seed;
  for (HostPlan& host : scenario.hosts) host.bring_up_ns = kNs[number++ % kNs.size()];
}

// Draws small queues, so that every stall happens.
TransferPolicy draw_policy(Random& random, std::size_t hosts) {
  TransferPolicy policy;
  policy.qps = static_cast<std::uint32_t>(hosts > kHostsSome ? 1 : random.between(1, 4));
  policy.signal_interval = static_cast<std::uint32_t>(random.between(1, 20));
  policy.slots = random.one_in(4) ? 64 : 32;
  policy.batch = static_cast<std::uint32_t>(random.between(1, 8));
  policy.rq_depth = 16u << random.below(3);
  policy.sq_depth = 64u << random.below(3);
  policy.express_bytes = random.one_in(8) ? 0 : random.below(600);
  policy.stripe_bytes = kStripeAlign * random.between(1, 8);
  policy.wr_bytes = kStripeAlign * random.between(1, 16);
  policy.inflight_bytes = std::max<std::uint64_t>(policy.wr_bytes, 512 * random.between(1, 64));
  policy.inline_bytes = static_cast<std::uint32_t>(random.between(64, 192));
  return policy;
}

}  // namespace

std::uint64_t Scenario::messages() const {
  std::uint64_t sum = 0;
  for (const ChannelPlan& channel : channels) sum += channel.sends.size();
  for (const GroupPlan& group : groups) sum += group.work.size() * group.contexts.size();
  return sum;
}

bool Scenario::healthy() const {
  return faults.empty() && control.pause_ns == 0 &&
         std::all_of(hosts.begin(), hosts.end(),
                     [](const HostPlan& host) { return host.slowness == 1; });
}

bool Scenario::uses_indices_again() const {
  return std::any_of(channels.begin(), channels.end(),
                     [](const ChannelPlan& channel) { return channel.after != SIZE_MAX; });
}

Scenario draw_scenario(std::uint64_t seed, const Options& asked) {
  if (asked.any_fabric) return draw_any_fabric(seed, asked);
  Scenario scenario;
  scenario.seed = seed;
  scenario.options = asked;
  if (asked.one_shot) draw_members(scenario);
  const Options options = scenario.options;
  scenario.hard = is_hard(seed, options);
  Random random(seed, 1);
  scenario.hosts.resize(scenario.hard ? random.between(2, 3) : draw_hosts(random, options));
  if (options.relays) draw_cabling(scenario);
  draw_fabric(scenario, random);
  scenario.policy = draw_policy(random, scenario.hosts.size());
  if (scenario.hard) harden_policy(scenario.policy, random);
  scenario.policy.late_qps = options.late;
  scenario.ack_timeout = static_cast<int>(random.between(6, 12));
  scenario.retries = static_cast<int>(random.between(1, 6));
  if (random.one_in(3)) scenario.path_timeout_s = static_cast<int>(random.between(1, 3));
  for (std::size_t host = 0; host < scenario.hosts.size(); ++host) {
    const std::uint64_t contexts = scenario.hosts.size() <= kHostsSome && random.one_in(4) ? 2 : 1;
    for (std::uint64_t i = 0; i < contexts; ++i)
      scenario.contexts.push_back({.host = host, .process = host});
    scenario.processes.push_back(host);
  }
  if (options.siblings) draw_siblings(scenario);
  options.relays ? draw_relay_channels(scenario, random) : draw_channels(scenario, random);
  if (options.one_shot) draw_one_shot(scenario);
  draw_faults(scenario, random);
  if (options.outages) draw_outages(scenario);
  draw_distance(scenario);
  draw_disorder(scenario);
  draw_near(scenario);
  draw_adaptive_routing(scenario);
  draw_rails(scenario);
  draw_device_memory(scenario);
  if (options.relays) draw_relays(scenario);
  draw_groups(scenario);
  if (options.mute) draw_mute(scenario);
  // A link ends with its control connection until it is up, and relays need the links of others.
  if (options.late && !options.relays) draw_bring_ups(scenario);
  if (options.pessimistic) draw_pessimistic(scenario);
  if (options.recabled) draw_recabled(scenario);
  if (options.timed) draw_timed(scenario);
  if (options.siblings) draw_deaths(scenario);
  return scenario;
}

}  // namespace mesh::sim

// One seed in five is hard on paths: three slow ones between any two hosts, each with room for a
// few work requests, two of them lost one after the other, and channels that end the moment it
// happens. The other seeds hold a world like that too rarely.

#include "tests/sim/scenario.h"

namespace mesh::sim {
namespace {
constexpr std::uint64_t kHardOneIn = 5, kHardRemainder = 3;
}  // namespace

// Chooses by the seed's number, so that what the other seeds draw stays as it was.
bool is_hard(std::uint64_t seed, const Options& options) {
  const bool free = options.hosts == 0 && !options.all_to_all && !options.relays &&
                    options.level == Level::Faults;
  return free && seed % kHardOneIn == kHardRemainder;
}

void harden_policy(TransferPolicy& policy, Random& random) {
  policy.qps = static_cast<std::uint32_t>(random.between(1, 2));
  policy.express_bytes = random.below(100);
  policy.wr_bytes = kStripeAlign * random.between(1, 4);
  policy.stripe_bytes = policy.wr_bytes * random.between(1, 4);
  policy.inflight_bytes = policy.wr_bytes * random.between(1, 5);
}

void harden_channel(ChannelPlan& channel, Random& random) {
  channel.ending = random.one_in(2) ? Ending::SenderCloses : Ending::Orderly;
  channel.ends_when_struck = true;
}

void draw_hard_faults(Scenario& scenario, Random& random) {
  using Kind = FaultPlan::Kind;
  // A path that is full stays full for longer than a fence takes, so that a second path is lost
  // while what the first one has lost waits for room.
  scenario.write_delay_ns = random.between(100 * kUs, 500 * kUs);
  scenario.control.delay_max_ns = 40 * kUs;
  scenario.control.pause_ns = 0;
  const std::uint64_t rounds = random.between(3, 8);
  for (std::uint64_t round = 0; round < rounds; ++round) {
    FaultPlan fault;
    fault.at = scenario.messages() * round / rounds + random.below(10);
    fault.host = random.below(scenario.hosts.size());
    fault.kind = random.one_in(4) ? Kind::QueuePairError : Kind::PortDown;
    const std::vector<std::string>& nics = scenario.hosts[fault.host].nics;
    const std::uint64_t peer = kHardCables * random.below(nics.size() / kHardCables);
    const std::uint64_t first = random.below(kHardCables);
    fault.nic = nics[peer + first];
    fault.duration_ns = random.between(100 * kUs, 20 * kMs);
    scenario.faults.push_back(fault);
    fault.kind = Kind::PortDown;
    fault.nic = nics[peer + (first + random.between(1, 2)) % kHardCables];
    fault.gap_ns = random.between(20 * kUs, 500 * kUs);
    scenario.faults.push_back(fault);
  }
}

}  // namespace mesh::sim

// Draws receivers whose memory is a GPU's, in one seed in four, by the seed's number: NICs keep
// what they write there until they read it, so each receive is flushed before its bytes are looked
// at. Also draws receives in groups, in one seed in three.

#include <mesh/channel.h>

#include "tests/sim/scenario.h"

namespace mesh::sim {
namespace {
constexpr std::uint64_t kOneIn = 4, kRemainder = 1;  // not the seeds of draw_disorder()
constexpr std::uint64_t kGroupsOneIn = 3, kGroupsRemainder = 2;
}  // namespace

void draw_device_memory(Scenario& scenario) {
  const bool chosen = scenario.options.device || scenario.seed % kOneIn == kRemainder;
  if (!chosen || scenario.out_of_order_ns != 0) return;
  scenario.device_memory = true;
  for (soft::HostSpec& host : scenario.fabric.hosts) {
    for (soft::NicSpec& nic : host.nics) nic.peer_memory = nic.late_device_writes = true;
  }
}

// Draws receives that are started together, as where several ranks of a host share a connection.
void draw_groups(Scenario& scenario) {
  if (!scenario.options.groups && scenario.seed % kGroupsOneIn != kGroupsRemainder) return;
  std::uint64_t number = scenario.seed;
  for (ChannelPlan& channel : scenario.channels) channel.group_max = 1 + (number++ * 5) % kGroupMax;
}

}  // namespace mesh::sim

// Groups of hosts that are not neighbours, before any host between has a link with anybody: hosts
// find each other over their cables.
#include "perf/driver/connection_set.h"
#include "tests/e2e/line.h"
#include "tests/e2e/pace.h"
#include "tests/e2e/raw.h"

namespace mesh::e2e {
namespace {

constexpr const char* kSoftwareOnly = "its cables are those of a software fabric";
constexpr std::size_t kLargeBytes = 1'000'000;

// Ranks 2k and 2k+1 are a group, and have a communicator whose id only they know, or one that all
// ranks have. Both send and receive. A rank without a partner only starts the plugin.
void exchange_in_pairs(Peer& peer, std::uint64_t id) {
  const auto api = peer.load();
  const auto communicator = open_communicator(*api, id);
  peer.barrier();
  const int partner = peer.rank() ^ 1;
  const bool paired = partner < peer.world();
  driver::ConnectionSet connections(*communicator);
  driver::ConnectionPlan plan;
  if (paired) plan.send_to = plan.recv_from = {partner};
  plan.timeout = patience();
  require_success(connections.connect(peer.bootstrap(), plan), "connecting");
  if (paired) {
    Raw sender(*api, connections.send(0), driver::Side::Send);
    Raw receiver(*api, connections.recv(0), driver::Side::Recv);
    driver::Registered out(*communicator, connections.send(0), kLargeBytes);
    driver::Registered in(*communicator, connections.recv(0), kLargeBytes);
    for (const std::size_t bytes : {std::size_t{8}, kLargeBytes})
      exchange({sender, out.piece(0, bytes)}, {receiver, in.piece(0, bytes)});
  }
  peer.barrier();
}

const Scenario kOwn("neighbours_own_id", [](Peer& peer) {
  exchange_in_pairs(peer, 100 + static_cast<std::uint64_t>(peer.rank()) / 2);
});
const Scenario kShared("neighbours_shared_id", [](Peer& peer) { exchange_in_pairs(peer, 4711); });

// Host names in the order of the ranks: each pair of ranks is a pair that no rail joins.
const std::vector<std::string> kRing{"a", "c", "b", "d"};
const std::vector<std::string> kStar{"b", "c", "d", "e", "a"};

TEST(Neighbours, CommunicatorsOfHostsThatAreNotNeighboursComeFirstWithTheJobsSecret) {
  for (const auto& [fabric, hosts] : {std::pair{"ring4.json", kRing}, {"star5.json", kStar}})
    expect_run(kOwn, {.fabric = fabric,
                      .hosts = hosts,
                      .software_only = kSoftwareOnly,
                      .environment = {{"NCCL_MESH_JOB", "a secret of this job"}}});
}

TEST(Neighbours, ACommunicatorOfAllHostsIsSecretEnough) {
  for (const auto& [fabric, hosts] : {std::pair{"ring4.json", kRing}, {"star5.json", kStar}})
    expect_run(kShared, {.fabric = fabric, .hosts = hosts, .software_only = kSoftwareOnly});
}

}  // namespace
}  // namespace mesh::e2e

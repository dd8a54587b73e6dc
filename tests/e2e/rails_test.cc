// Rails that keep their places, on the software fabric: eight ports of each host on one switch.
#include "perf/collectives/collective.h"
#include "perf/driver/world.h"
#include "src/soft/fault_door.h"
#include "tests/e2e/fabric_door.h"
#include "tests/e2e/line.h"
#include "tests/e2e/pace.h"
#include "tests/prelude.h"

namespace mesh::e2e {
namespace {

constexpr int kRails = 8;
constexpr std::size_t kBytes = std::size_t{1} << 20;
constexpr const char* kSoftwareOnly = "its ports are broken through the software fabric's own door";

std::string eight_rails() {
  std::string hosts, ports;
  for (const char* host : {"a", "b"}) {
    std::string nics;
    for (int i = 0; i < kRails; ++i) {
      nics += fmt::format(R"({}{{"name": "mesh{}", "address": "10.0.1.{}/24"}})",
                          i == 0 ? "" : ", ", i, (*host - 'a' + 1) * 10 + i);
      ports += fmt::format(R"({}"{}/mesh{}")", ports.empty() ? "" : ", ", host, i);
    }
    hosts +=
        fmt::format(R"({}{{"name": "{}", "nics": [{}]}})", hosts.empty() ? "" : ", ", host, nics);
  }
  return fmt::format(R"({{"name": "eight_rails", "hosts": [{}], "links": [{{"switch": [{}]}}],
    "faults": [{{"kind": "port_down", "host": "b", "nic": "mesh3"}}]}})",
                     hosts, ports);
}

std::string path_of(int local, int peer) {
  return fmt::format("mesh{}:1 10.0.1.{} -> mesh{}:1 10.0.1.{}", local, 10 + local, peer,
                     20 + peer);
}

// Reads the paths from the line of rank 0's link.
void expect_each_rail_meets_its_like() {
  for (int local = 0; local < kRails; ++local) {
    for (int peer = 0; peer < kRails; ++peer)
      require(logged(path_of(local, peer)) == (local == peer), path_of(local, peer));
  }
}

std::uint64_t posted_on_mesh3() {
  return tell("a", {.verb = soft::FaultVerb::Look, .fault = {.nic = "mesh3"}}).bytes;
}

const Scenario kDownAtStart("rails_down_at_start", [](Peer& peer) {
  const auto api = peer.load();
  const auto communicator = open_communicator(*api);
  int devices = 0;
  require_success(api->devices(&devices), "devices");
  require(devices == (peer.rank() == 0 ? kRails : kRails - 1), "a port that is down is no device");
  Rounds rounds(peer, *communicator, {.bytes_max = kBytes});
  rounds.run(kBytes);
  if (peer.rank() == 0) {
    expect_each_rail_meets_its_like();
    require(logged("has a port that is down, and joins when it comes up; 7 of 8 paths carry on"),
            "no word of the port that is down");
    require(posted_on_mesh3() == 0, "a path that is down carries something");
    tell("b", {.verb = soft::FaultVerb::Lift,
               .fault = {.kind = soft::FaultKind::PortDown, .nic = "mesh3"}});
  }
  const auto end = std::chrono::steady_clock::now() + patience();
  for (bool used = false; !used;) {
    rounds.run(kBytes);
    const bool seen = peer.rank() == 0 && posted_on_mesh3() != 0 &&
                      logged(fmt::format("path {} is back", path_of(3, 3)));
    used = peer.all_gather(seen ? "1" : "0").front() == "1";
    require(used || std::chrono::steady_clock::now() < end, "the port takes no place");
  }
  if (peer.rank() == 0) expect_each_rail_meets_its_like();
  peer.barrier();
});

TEST(Rails, APortThatComesUpLaterTakesItsPlace) {
  expect_run(kDownAtStart, {.fabric_text = eight_rails(),
                            .software_only = kSoftwareOnly,
                            .environment = {{"NCCL_MESH_RAILS", "all"}}});
}

}  // namespace
}  // namespace mesh::e2e

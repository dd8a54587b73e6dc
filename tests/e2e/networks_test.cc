// Networks beyond one wire, on the software fabric: routers between the hosts, a route that is
// missing on one side, and InfiniBand-like ports with partitions and LIDs that change.
#include "perf/collectives/collective.h"
#include "perf/driver/world.h"
#include "src/soft/fault_door.h"
#include "tests/e2e/line.h"
#include "tests/prelude.h"

namespace mesh::e2e {
namespace {

using SteadyClock = std::chrono::steady_clock;

// A verified all-reduce of two ranks, over four channels.
class AllReduce {
 public:
  explicit AllReduce(Peer& peer)
      : api_(peer.load()),
        communicator_(open_communicator(*api_)),
        rounds_(peer, *communicator_,
                {.kind = perf::Kind::AllReduce, .type = perf::DataType::Float, .bytes_max = kMax},
                4) {}

  void run(std::size_t bytes) { rounds_.run(bytes); }
  void run_all_sizes() {
    for (const std::size_t bytes : {4ul, 4096ul, 100004ul, kMax}) run(bytes);
  }
  static constexpr std::size_t kMax = std::size_t{4} << 20;

 private:
  const std::unique_ptr<driver::NetApi> api_;
  const std::unique_ptr<driver::Communicator> communicator_;
  Rounds rounds_;
};

const Scenario kAllReduce("networks_all_reduce", [](Peer& peer) {
  AllReduce all_reduce(peer);
  all_reduce.run_all_sizes();
  peer.barrier();
});

void expect_said(const RankEnd& rank, const std::string& words) {
  EXPECT_NE(unbroken(rank.output).find(words), std::string::npos) << rank.output;
}

TEST(Networks, AllReduceAcrossARouter) { expect_run(kAllReduce, {.fabric = "routed2.json"}); }

// The two ends have no common subnet, but each host has a route to its peer's address.
TEST(Networks, AllReduceBetweenHostAddresses) {
  expect_run(kAllReduce, {.fabric_text = R"({"name": "host-addresses",
      "hosts": [{"name": "a", "nics": [{"name": "n0", "address": "10.0.0.1/32"}]},
                {"name": "b", "nics": [{"name": "n0", "address": "10.0.0.2/32"}]}],
      "links": [{"ends": ["a/n0", "b/n0"]}]})",
                          .software_only = "its addresses are those of a software fabric"});
}

TEST(Networks, AllReduceBetweenInfiniBandPortsOfDifferentPrefixes) {
  expect_run(kAllReduce, {.fabric = "infiniband2.json",
                          .software_only = "its ports are those of a software fabric",
                          .environment = {{"NCCL_IB_PKEY", "3"}, {"NCCL_IB_GID_INDEX", "3"}}});
}

// Lets writes of one queue pair overtake one another, up to the next write with immediate; some
// land twice.
std::string out_of_order() {
  return R"({"name": "out-of-order",
      "hosts": [{"name": "a", "nics": [{"name": "n0", "address": "10.0.1.1/24"},
                                       {"name": "n1", "address": "10.0.2.1/24"}]},
                {"name": "b", "nics": [{"name": "n0", "address": "10.0.1.2/24"},
                                       {"name": "n1", "address": "10.0.2.2/24"}]}],
      "links": [{"ends": ["a/n0", "b/n0"]}, {"ends": ["a/n1", "b/n1"]}],
      "faults": [{"kind": "out_of_order", "delay_ns": 20000}]})";
}

TEST(Networks, AllReduceWithAdaptiveRoutingWhereWritesArriveOutOfOrder) {
  for (const char* threshold : {"0", "8192"}) {
    expect_run(kAllReduce, {.fabric_text = out_of_order(),
                            .software_only = "only a software fabric arms faults",
                            .environment = {{"NCCL_IB_ADAPTIVE_ROUTING", "1"},
                                            {"NCCL_IB_AR_THRESHOLD", threshold}}});
  }
}

// Devices without reliable connections beside a bond, as some cloud hosts have them.
TEST(Networks, OnlyPortsWithReliableConnectionsAreRailsAndABondTellsItsSpeed) {
  const std::vector<RankEnd> ranks =
      run(kAllReduce, {.fabric_text = R"({"name": "mixed",
      "hosts": [{"name": "a", "nics": [
          {"name": "bond", "address": "10.0.0.1/24"},
          {"name": "efa0", "address": "fe80::a/64", "layer": "unspecified", "reliable": false},
          {"name": "lame", "address": "10.0.7.1/24", "reliable": false}]},
        {"name": "b", "nics": [
          {"name": "bond", "address": "10.0.0.2/24"},
          {"name": "efa0", "address": "fe80::b/64", "layer": "unspecified", "reliable": false},
          {"name": "lame", "address": "10.0.7.2/24", "reliable": false}]}],
      "links": [{"ends": ["a/bond", "b/bond"], "gbps": 50, "port_gbps": 25, "bond": true},
                {"ends": ["a/efa0", "b/efa0"]}, {"ends": ["a/lame", "b/lame"]}]})",
                       .software_only = "its devices are those of a software fabric",
                       .environment = {{"NCCL_DEBUG", "INFO"}}});
  expect_success(ranks);
  for (const RankEnd& rank : ranks) {
    expect_said(rank,
                "ports not used: efa0:1 is neither Ethernet nor InfiniBand, lame:1 cannot create a "
                "reliable queue pair of 256 work requests with 64 bytes inline: Operation not "
                "supported");
    expect_said(rank, "50 Gb/s");
  }
}

// Connect and accept end with an error that both sides name, without waiting for an address.
const Scenario kNoRoute("networks_no_route", expect_refusal);

// The acceptor's look-up promises nothing: the connector has no route, and says so.
TEST(Networks, AConnectorWithoutARouteIsNamedOnBothSides) {
  const std::vector<RankEnd> ranks =
      run(kNoRoute, {.fabric_text = R"({"name": "no-route", "routers": ["r"], "hosts": [
        {"name": "a", "nics": [{"name": "n0", "address": "10.1.0.0/31", "routes": false}]},
        {"name": "b", "nics": [{"name": "n0", "address": "10.2.0.0/31"},
                               {"name": "other", "address": "10.3.0.0/31"}]}],
      "links": [{"ends": ["a/n0", "r"]}, {"ends": ["b/other", "r"]}, {"ends": ["b/n0", "r"]}]})",
                     .software_only = "its routes are those of a fabric",
                     .environment = {{"NCCL_MESH_RELAY", "0"}}});
  expect_success(ranks);
  ASSERT_EQ(ranks.size(), 2u);
  expect_said(ranks[0], "10.1.0.0 -> n0:1 10.2.0.0: this host has no route to that address");
  expect_said(ranks[1], "host a: its end of the link failed");
}

// A subnet manager gives the port of host b another LID in the middle of a job.
const Scenario kLidChange("networks_lid_change", [](Peer& peer) {
  AllReduce all_reduce(peer);
  all_reduce.run_all_sizes();
  peer.barrier();
  if (peer.rank() == 0) {
    const std::string fabric = driver::variable(process_environment(), "NCCL_MESH_FABRIC");
    const auto file = soft::load(fabric.substr(fabric.find(':') + 1));
    require(file.ok(), "no fabric to change");
    const auto answer = soft::tell_host(
        *file, "b",
        {.fault = {.kind = soft::FaultKind::LidChange, .nic = "ib0", .after_work_requests = 40}});
    require(answer.ok() && answer->code == Errc::Ok, "host b was not told");
  }
  const auto begin = SteadyClock::now();
  constexpr int kRoundsMax = 20'000;
  bool back = false;
  for (int round = 0; round < kRoundsMax && !back; ++round) {
    all_reduce.run(AllReduce::kMax / 4);
    // Both go on until both have read that the path is back.
    const std::vector<std::string> seen = peer.all_gather(logged(" is back after ") ? "1" : "0");
    back = std::all_of(seen.begin(), seen.end(), [](const std::string& one) { return one == "1"; });
  }
  require(back, "the path did not come back");
  report_figure("back_after_ms",
                std::chrono::duration<double, std::milli>(SteadyClock::now() - begin).count());
  if (peer.rank() == 1) require(logged("ib0:1: the LID of its port is"), "no word of the new LID");
  all_reduce.run_all_sizes();
  peer.barrier();
});

TEST(Networks, AJobOutlivesANewLidOfOneOfItsPorts) {
  expect_run(kLidChange, {.fabric = "infiniband2.json",
                          .software_only = "only a software fabric changes LIDs",
                          .environment = {{"NCCL_IB_PKEY", "3"}}});
}

TEST(Networks, AJobOutlivesANewLidOfItsOnlyPort) {
  expect_run(kLidChange, {.fabric_text = R"({"name": "one-port",
      "hosts": [{"name": "a", "nics": [{"name": "ib0", "layer": "infiniband",
                                        "address": "fe80::a/64"}]},
                {"name": "b", "nics": [{"name": "ib0", "layer": "infiniband",
                                        "address": "fe80::b/64"}]}],
      "links": [{"ends": ["a/ib0", "b/ib0"]}]})",
                          .software_only = "only a software fabric changes LIDs"});
}

}  // namespace
}  // namespace mesh::e2e

// Collectives over all hosts of a fabric, computed and verified element by element.
#include "perf/collectives/collective.h"
#include "tests/e2e/line.h"
#include "tests/prelude.h"

namespace mesh::e2e {
namespace {

using perf::DataType, perf::Kind, perf::Placement, perf::Reduction;

// The bound between emulated machines; still several work requests per queue pair.
constexpr std::size_t kEmulatedMax = (std::size_t{3} << 20) + 20;

struct Work {
  Kind kind = Kind::AllReduce;
  DataType type = DataType::Float;
  int channels = 1;
  std::uint32_t outstanding = 8;
  std::vector<std::size_t> sizes;
};

void verify(Peer& peer, const Work& work) {
  const auto api = peer.load();
  const auto communicator = open_communicator(*api);
  Rounds rounds(peer, *communicator,
                {.kind = work.kind,
                 .type = work.type,
                 .bytes_max = work.sizes.back(),
                 .outstanding = work.outstanding},
                work.channels);
  for (const std::size_t size : work.sizes) {
    for (int repeat = 0; repeat < 2; ++repeat)
      rounds.run(largest(size, std::min(size, kEmulatedMax)));
  }
  peer.barrier();
}

const std::vector<std::size_t> kSizes{
    0, 4, 40, 4096, 100004, std::size_t{1} << 20, (std::size_t{9} << 20) + 20};

const Scenario kAllReduce("all_reduce", [](Peer& peer) { verify(peer, {.sizes = kSizes}); });
TEST(Collective, RingAllReduceOnTwoRanks) { expect_run(kAllReduce); }
TEST(Collective, RingAllReduceOnThreeRanksOfATriangle) {
  expect_run(kAllReduce, {.fabric = "triangle.json"});
}
TEST(Collective, RingAllReduceOnThreeRanksOfASwitch) {
  expect_run(kAllReduce, {.fabric = "switched3.json"});
}
TEST(Collective, RingAllReduceOnFourRanksOfARing) {
  expect_run(kAllReduce, {.fabric = "ring4.json"});
}
// NCCL connects ring, tree and more at init if cuMem is off: the diagonal is connected, and never
// used.
const Scenario kDiagonal("all_reduce_beside_the_diagonal", [](Peer& peer) {
  const auto api = peer.load();
  const auto communicator = open_communicator(*api, 2);
  Dormant diagonal(peer, *communicator);
  verify(peer, {.sizes = kSizes});
  diagonal.expect_first_messages_to_fail();
  const char* const across[] = {"c", "d", "a", "b"};
  require(logged(std::string("peer ") + across[peer.rank()] +
                 ": no path leads to it: NCCL_MESH_RELAY=0 on host "),
          "the message over the diagonal is not named");
  peer.barrier();
  diagonal.close();
});
TEST(Collective, RingAllReduceOnFourRanksWhoseDiagonalsAreConnected) {
  expect_run(kDiagonal, {.fabric = "ring4.json", .environment = {{"NCCL_MESH_RELAY", "0"}}});
}
TEST(Collective, RingAllReduceWithoutPollerThreads) {
  expect_run(kAllReduce, {.fabric = "triangle.json", .environment = {{"NCCL_MESH_THREADS", "0"}}});
}

const Scenario kAllReduceChannels("all_reduce_channels", [](Peer& peer) {
  verify(peer, {.type = DataType::Int64, .channels = 4, .sizes = kSizes});
});
TEST(Collective, RingAllReduceOverFourChannels) {
  expect_run(kAllReduceChannels, {.fabric = "triangle.json"});
}

// Every operation with every type and reduction in turn, both ways to place the arrays, and every
// rank as root.
const Scenario kRings("ring_collectives", [](Peer& peer) {
  const auto api = peer.load();
  const auto communicator = open_communicator(*api);
  const std::vector<std::size_t> sizes{0, 4, 48, 100004, kEmulatedMax};
  int turn = 0;
  for (const Kind kind :
       {Kind::AllGather, Kind::ReduceScatter, Kind::Broadcast, Kind::Reduce, Kind::AllReduce}) {
    for (const DataType type : {DataType::Uint8, DataType::Int32, DataType::Int64, DataType::Half,
                                DataType::Bfloat16, DataType::Float, DataType::Double}) {
      Rounds rounds(peer, *communicator,
                    {.kind = kind,
                     .type = type,
                     .reduction = static_cast<Reduction>(turn % 4),
                     .root = turn % peer.world(),
                     .bytes_max = sizes.back()},
                    1 + turn % 2);
      for (const Placement placement : {Placement::OutOfPlace, Placement::InPlace}) {
        rounds.set_placement(placement);
        for (const std::size_t size : sizes) rounds.run(size);
      }
    }
  }
  peer.barrier();
});
TEST(Collective, EveryRingOperationOnTwoRanks) { expect_run(kRings); }
TEST(Collective, EveryRingOperationOnThreeRanksOfATriangle) {
  expect_run(kRings, {.fabric = "triangle.json"});
}

const Scenario kAllToAll("all_to_all", [](Peer& peer) {
  verify(peer, {.kind = Kind::AllToAll,
                .sizes = {0, 64, 8192, std::size_t{1} << 20, std::size_t{8} << 20}});
});
TEST(Collective, AllToAllOfTwoRanks) { expect_run(kAllToAll); }
TEST(Collective, AllToAllOfThreeRanksOfATriangle) {
  expect_run(kAllToAll, {.fabric = "triangle.json"});
}
TEST(Collective, AllToAllOfThreeRanksOfASwitch) {
  expect_run(kAllToAll, {.fabric = "switched3.json"});
}
// The messages go over other hosts of the job: the diagonals of a ring, the ends of a line, the
// points of a star.
TEST(Collective, AllToAllOfHostsThatAreNotNeighbours) {
  for (const char* const fabric : {"line3.json", "ring4.json", "line4.json", "star5.json"}) {
    SCOPED_TRACE(fabric);
    expect_run(kAllToAll, {.fabric = fabric});
  }
}
TEST(Collective, AllToAllOfSixRanksOfARing) { expect_run(kAllToAll, {.fabric = "ring6.json"}); }
TEST(Collective, RingAllReduceOnFiveRanksOfAStar) {
  expect_run(kAllReduce, {.fabric = "star5.json"});
}
TEST(Collective, AllToAllOfEightRanksWithinAMinute) {
  expect_run(kAllToAll, {.fabric = "alltoall8.json", .timeout = std::chrono::seconds(60)});
}

const std::vector<std::size_t> kSendRecvSizes{0, 64, 8192, std::size_t{1} << 20};
const Scenario kOneInFlight("send_recv_one", [](Peer& peer) {
  verify(peer, {.kind = Kind::SendRecv, .outstanding = 1, .sizes = kSendRecvSizes});
});
TEST(Collective, SendRecvWithOneMessageInFlight) { expect_run(kOneInFlight); }

// NCCL never has more requests outstanding.
const Scenario kManyInFlight("send_recv_many", [](Peer& peer) {
  verify(peer, {.kind = Kind::SendRecv, .outstanding = 32, .sizes = kSendRecvSizes});
});
TEST(Collective, SendRecvWithManyMessagesInFlight) { expect_run(kManyInFlight); }

const Scenario kPingPong("ping_pong", [](Peer& peer) {
  verify(peer, {.kind = Kind::Latency, .sizes = {0, 4, 200, 8192, 100004, std::size_t{1} << 20}});
});
TEST(Collective, PingPongBringsEveryByteThereAndBack) { expect_run(kPingPong); }

constexpr int kRoundTrips = 300;

const Scenario kSamples("ping_pong_samples", [](Peer& peer) {
  const auto api = peer.load();
  const auto communicator = open_communicator(*api);
  const perf::Team team{communicator.get(), &peer.bootstrap(), 1, patience()};
  std::string error;
  const auto collective =
      perf::Collective::create(team, {.kind = Kind::Latency, .bytes_max = 64}, error);
  require(collective != nullptr, error);
  for (int repeat = 0; repeat < 2; ++repeat) {
    require_success(collective->run(collective->count_for(64), kRoundTrips), "round trips");
    const std::vector<double>& samples = *collective->samples_us();
    require(samples.size() == (team.rank() == 0 ? kRoundTrips : 0),
            std::to_string(samples.size()) + " samples");
    require(std::all_of(samples.begin(), samples.end(), [](double sample) { return sample > 0; }),
            "a latency of nothing");
    peer.barrier();
  }
});
TEST(Collective, PingPongTakesOneSampleARoundTrip) { expect_run(kSamples); }

}  // namespace
}  // namespace mesh::e2e

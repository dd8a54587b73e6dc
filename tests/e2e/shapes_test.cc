// All-reduce and all-to-all on rings and tori with several cables for each pair of neighbours and
// ports in any order. Most messages of the all-to-all go over other hosts.
#include "tests/unit/soft/shapes.h"
#include "perf/collectives/collective.h"
#include "tests/e2e/line.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace mesh::e2e {
namespace {

using testkit::Shape;

constexpr const char* kSoftwareOnly = "its cables are those of a software fabric";
constexpr std::chrono::seconds kTimeout{1200};  // a torus has sixteen processes

void verify(Peer& peer, driver::Communicator& communicator, perf::Kind kind) {
  const std::vector<std::size_t> sizes{64, 8192, 100'004};
  Rounds rounds(peer, communicator,
                {.kind = kind, .type = perf::DataType::Float, .bytes_max = sizes.back()}, 1);
  for (const std::size_t size : sizes) rounds.run(size);
}

const Scenario kBoth("shapes", [](Peer& peer) {
  const auto api = peer.load();
  const auto communicator = open_communicator(*api);
  for (const perf::Kind kind : {perf::Kind::AllReduce, perf::Kind::AllToAll})
    verify(peer, *communicator, kind);
  peer.barrier();
});

using Environment = std::vector<std::pair<std::string, std::string>>;

void expect_works(const Shape& shape, const Environment& environment = {}) {
  SCOPED_TRACE(testkit::text_of(shape));
  expect_run(kBoth, {.fabric_text = testkit::fabric_of(shape),
                     .software_only = kSoftwareOnly,
                     .environment = environment,
                     .timeout = kTimeout});
}

class RingShapes : public testing::TestWithParam<int> {};
TEST_P(RingShapes, WithOneToFourCablesAndPortsInAnyOrder) {
  for (int cables = 1; cables <= 4; ++cables) {
    expect_works({.hosts = GetParam(),
                  .cables = cables,
                  .seed = static_cast<std::uint64_t>(10 * GetParam() + cables)});
  }
}
INSTANTIATE_TEST_SUITE_P(Hosts, RingShapes, testing::Values(5, 6, 8));

// Its sixteen hosts share the CPUs of this machine: none spins, and each host between makes as few
// queue pairs as a path can have.
TEST(Shapes, ATorusOfFourTimesFourWithTwoCables) {
  expect_works(
      {.hosts = 16, .columns = 4, .cables = 2, .seed = 7},
      {{"NCCL_MESH_THREADS", "0"}, {"NCCL_MESH_QPS", "1"}, {"NCCL_MESH_PATH_TIMEOUT", "120"}});
}

}  // namespace
}  // namespace mesh::e2e

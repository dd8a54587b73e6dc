// Every value that NCCL's own transport takes for a setting that we honour starts the plugin.
#include "tests/e2e/line.h"
#include "tests/e2e/scenario.h"
#include "tests/prelude.h"
#include "tests/unit/base/nccl_values.h"

namespace mesh::e2e {
namespace {

void start_with(Peer& peer, const std::string& variable, const std::string& text) {
  const std::string what = variable + "=" + text;
  require(::setenv(variable.c_str(), text.c_str(), 1) == 0, "setenv " + what);
  {
    const auto api = peer.load();
    const auto communicator = open_communicator(*api);
    require(communicator->device_count() >= 1, "no device with " + what);
    require_success(communicator->close(), "finalize with " + what);
  }
  ::unsetenv(variable.c_str());
}

const Scenario kEveryValue("every_value_of_nccl", [](Peer& peer) {
  int count = 0;
  for (const testkit::NcclValue& each : testkit::kAcceptedByNccl) {
    start_with(peer, each.variable, each.text);
    ++count;
  }
  for (const auto& [each, range] : testkit::kCorrectedHere) {
    start_with(peer, each.variable, each.text);
    ++count;
  }
  for (const char* text : {"AF_INET", "AF_INET6", "inet"})
    start_with(peer, "NCCL_IB_ADDR_FAMILY", text);
  for (const char* text : {"10.0.0.0/8", "fd00::/64", "172.16.0.0/12", "10.0.0.0"})
    start_with(peer, "NCCL_IB_ADDR_RANGE", text);
  for (const char* text : {"mesh0", "=mesh0:1:0:1", "mesh0::2:3", "^mlx5", "^=mlx5_0:1,mesh7"})
    start_with(peer, "NCCL_IB_HCA", text);
  report_figure("values", count);
  peer.barrier();
});

TEST(NcclSettings, EveryValueThatNcclTakesStartsThePlugin) {
  const auto ranks = run(kEveryValue, {.software_only = "it names devices of the fabric"});
  expect_success(ranks);
  for (const RankEnd& rank : ranks)
    EXPECT_EQ(figure(rank, "values"),
              testkit::kAcceptedByNccl.size() + testkit::kCorrectedHere.size());
}

}  // namespace
}  // namespace mesh::e2e

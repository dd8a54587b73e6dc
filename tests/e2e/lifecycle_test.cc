// Loading, unloading, and every version of the interface.
#include "tests/e2e/line.h"
#include "tests/e2e/process_figures.h"
#include "tests/prelude.h"

namespace mesh::e2e {
namespace {

void drive_version(Peer& peer) {
  const int version = std::stoi(peer.argument());
  const auto api = peer.load(version);
  require(api->version() == version && std::string(api->name()) == "Mesh",
          "another table than asked for");
  const auto communicator = open_communicator(*api);
  const driver::NetProperties& properties = communicator->properties();
  require(communicator->device_count() >= 1 && !properties.name.empty() &&
              properties.speed_mbps > 0 && properties.max_recvs == 8 && properties.max_comms > 0 &&
              (properties.ptr_support & 1) != 0,
          "a property is missing");
  require(version < 7 || properties.device_type == 0, "not a host device");
  require(version < 9 || (properties.virtual_count == 1 && properties.max_p2p_bytes > 0 &&
                          properties.max_coll_bytes > 0),
          "a property of v9 is missing");
  Line line(peer, *communicator, {.bytes = 8 << 20});
  std::uint64_t number = 0;
  for (const std::size_t bytes : {0u, 1u, 64u, 5000u, 100000u, 3000000u})
    transfer(line, {.bytes = bytes, .number = ++number});
  peer.barrier();
  line.close();
  require_success(communicator->close(), "finalize");
}
const Scenario kAnyVersion("any_version", drive_version);
class Version : public testing::TestWithParam<int> {};
TEST_P(Version, DrivesATransfer) {
  expect_run(kAnyVersion, {.argument = std::to_string(GetParam())});
}
INSTANTIATE_TEST_SUITE_P(NcclNet, Version,
                         testing::Range(driver::kNetVersionMin, driver::kNetVersionMax + 1),
                         [](const auto& version) {
                           return std::string("v").append(std::to_string(version.param));
                         });

const Scenario kCyclesScenario("cycles", [](Peer& peer) {
  constexpr int kCycles = 10;
  ProcessFigures third;
  for (int cycle = 1; cycle <= kCycles; ++cycle) {
    {
      const auto api = peer.load(std::stoi(peer.argument()));
      const auto communicator = open_communicator(*api);
      Line line(peer, *communicator, {.bytes = 1 << 20});
      stream(line, {.count = trimmed(50), .bytes = 100000});
      peer.barrier();
      line.close();
      require_success(communicator->close(), "finalize");
    }
    if (cycle == 3) third = settled_process_figures();
  }
  // The number of threads at a time depends on the peer and on the machine. glibc keeps the stacks
  // of threads that have ended, each with its guard. A leak would leak in each of the cycles since
  // the third one.
  third.mappings += kCycles - 3 - 1;
  if (slowness() >= 2)
    third.mappings = std::numeric_limits<long>::max();  // a sanitizer's allocator maps as it likes
  const ProcessFigures last = process_figures_down_to(third, patience());
  const std::string grown =
      "from the 3rd to the 10th cycle: " + text_of(third) + " to " + text_of(last);
  require(last.threads <= third.threads, "threads grew " + grown);
  require(last.descriptors <= third.descriptors, "descriptors grew " + grown);
  require(last.mappings <= third.mappings, "mappings grew " + grown);
});
// With one arena, the number of mappings does not depend on how many threads allocate at a time.
RunOptions cycles_of(const char* version) {
  return {.argument = version, .environment = {{"MALLOC_ARENA_MAX", "1"}}};
}
TEST(Lifecycle, NothingGrowsOverLoadAndUnload) { expect_run(kCyclesScenario, cycles_of("12")); }
TEST(Lifecycle, NothingGrowsOverLoadAndUnloadOfAVersionWithoutFinalize) {
  expect_run(kCyclesScenario, cycles_of("8"));
}

}  // namespace
}  // namespace mesh::e2e

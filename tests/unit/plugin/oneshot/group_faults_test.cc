// Groups whose cables are cut and mended at random, over neighbours and over hosts between.
#include "plugin/oneshot/group.h"

#include "tests/unit/base/log_capture.h"
#include "tests/unit/engine/cables.h"
#include "tests/unit/plugin/oneshot/group_bed.h"

#include <deque>
#include <random>

namespace mesh::oneshot {
namespace {

using mesh::testkit::LogCapture, mesh::testkit::row;
using testkit::GroupBed, testkit::Round, testkit::Shape;

// A hundred over the three shapes; sanitizers take a minute for them.
#if defined(MESH_SANITIZE_ADDRESS) || defined(MESH_SANITIZE_THREAD)
constexpr int kCuts = 6;
#else
constexpr int kCuts = 34;
#endif

class GroupFaults : public testing::TestWithParam<Shape> {
 protected:
  static constexpr std::size_t kOpenMost = 10;
  // Up to 80 ms go by while a cable is cut, and each round turns every host.
  static constexpr std::uint64_t kTickNs = 40'000;

  GroupFaults()
      : bed_({.fabric = row(GetParam().hosts, GetParam().ring)}),
        cables_(bed_.size() - (GetParam().ring ? 0 : 1)) {}

  void TearDown() override {
    bed_.groups.clear();
    EXPECT_TRUE(bed_.bed.empties());
  }
  // Cable i joins port n1 of host i and port n0 of the next host.
  void set_cable(std::size_t cable, bool up) {
    const auto set = [&](std::size_t host, const char* nic) {
      const soft::Fault fault{.kind = soft::FaultKind::PortDown, .nic = nic};
      soft::FaultPlan& faults = bed_.bed.hosts[host % bed_.size()].provider->faults();
      if (up) return faults.lift(fault);
      EXPECT_TRUE(faults.arm(fault).ok());
    };
    set(cable, "n1");
    set(cable + 1, "n0");
  }
  void start_some(std::mt19937_64& random) {
    while (open_.size() < 1 + random() % kOpenMost) {
      const std::size_t count = random() % 3 == 0 ? random() % 100'000 : random() % 4'000;
      const Reduction reduction{static_cast<Element>(random() % kElements),
                                static_cast<Operation>(random() % kOperations)};
      open_.emplace_back(reduction, count, bed_).start(bed_);
    }
  }
  // Ends at least the oldest.
  void end_some() {
    ASSERT_TRUE(bed_.bed.until([&] { return open_.front().done(); }, 10 * bed_.bed.kRounds));
    open_.front().expect_right();
    open_.pop_front();
  }

  GroupBed bed_;
  const std::size_t cables_;
  std::deque<Round> open_;
};
INSTANTIATE_TEST_SUITE_P(Shapes, GroupFaults,
                         testing::Values(Shape{"triangle", 3, true}, Shape{"line", 3, false},
                                         Shape{"square", 4, true}),
                         [](const auto& info) { return info.param.name; });

TEST_P(GroupFaults, CutsLoseAndDoubleNothing) {
  constexpr std::uint64_t kSeed = 38;
  SCOPED_TRACE(kSeed);
  std::mt19937_64 random(kSeed);
  for (const Errc answer : bed_.connect()) ASSERT_EQ(answer, Errc::Ok);
  LogCapture log;
  bed_.bed.tick_ns = kTickNs;
  for (int cut = 0; cut < kCuts; ++cut) {
    const std::size_t cable = random() % cables_;
    start_some(random);
    bed_.bed.rounds(static_cast<int>(random() % 200));
    set_cable(cable, false);
    start_some(random);
    bed_.bed.rounds(static_cast<int>(random() % 2'000));
    set_cable(cable, true);
    while (open_.size() > random() % kOpenMost) ASSERT_NO_FATAL_FAILURE(end_some());
  }
  while (!open_.empty()) ASSERT_NO_FATAL_FAILURE(end_some());
}

}  // namespace
}  // namespace mesh::oneshot

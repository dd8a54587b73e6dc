// Tries to open standby paths, which the connector may leave at any step.

#include "engine/link/path_repair.h"

#include "engine/link/link.h"
#include "src/base/timeouts.h"
#include "tests/unit/base/log_capture.h"
#include "tests/unit/engine/link/fake_host.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace mesh::engine {
namespace {

using testkit::count_said, testkit::lose_path, testkit::state_of, testkit::TwoEnds;

// The first of three cables carries, and the others stand by.
class StandbyRepairTest : public ::testing::Test {
 protected:
  StandbyRepairTest() {
    ends_.come_up();
    for (const char* const nic : {"n0", "n1", "n2"}) port(nic, Port::Down);
    lose_path(ends_.sender(), 0);
    ends_.carry_all();
    EXPECT_EQ(state_of(ends_.sender(), 1), PathState::Down) << "it is wanted";
  }
  enum class Port : std::uint8_t { Up, Down };
  void port(const char* nic, Port state) {
    const soft::Fault down{.kind = soft::FaultKind::PortDown, .nic = nic};
    for (testkit::FakeHost* const host : {&ends_.a, &ends_.b}) {
      if (state == Port::Up) {
        host->provider->faults().lift(down);
      } else {
        EXPECT_TRUE(host->provider->faults().arm(down).ok());
      }
    }
  }
  // The port comes up, and its path is opened until it is probed.
  void begin_to_open(std::uint32_t index, const char* nic) {
    port(nic, Port::Up);
    ends_.a.links.on_port_up(ends_.sender().peer_link().paths()[index].rail);
    for (int i = 0; i < 20; ++i) {
      ends_.carry();
      ends_.a.links.tend();
      ends_.b.links.tend();
    }
    EXPECT_NE(queue_pairs_of(ends_.sender(), index), 0u);
    EXPECT_NE(queue_pairs_of(ends_.receiver(), index), 0u);
  }
  static std::size_t queue_pairs_of(Link& link, std::uint32_t index) {
    return link.peer_link().paths()[index].device->queue_pair_count();
  }

  testkit::LogCapture log_;
  TwoEnds ends_{testkit::kThreeCables, RailsWish::Auto};
};

// The connector admits the first path, loses it to another thread, and admits the second one. The
// acceptor hears of the first one alone before it looks at its paths.
TEST_F(StandbyRepairTest, ATryThatIsAnsweredDoesNotRest) {
  begin_to_open(0, "n0");
  begin_to_open(1, "n1");
  for (int i = 0; i < 20; ++i) ends_.turn();  // both probes come through
  int admitted = 0;
  ends_.a.wire.on_said = [&](MessageType type) {
    if (type == MessageType::PathUp && ++admitted == 1) lose_path(ends_.sender(), 0);
  };
  ends_.a.links.tend();
  ASSERT_EQ(admitted, 2) << "both are admitted";
  ends_.carry_one();
  ends_.b.links.tend();
  EXPECT_EQ(state_of(ends_.receiver(), 0), PathState::Up);
  EXPECT_NE(queue_pairs_of(ends_.receiver(), 1), 0u) << "the connector uses them";
  for (int i = 0; i < 20; ++i) {
    ends_.carry_all();
    ends_.advance_ns(kReopenPauseStalledMaxNs);
  }
  for (Link* const link : {&ends_.sender(), &ends_.receiver()}) {
    EXPECT_EQ(state_of(*link, 0), PathState::Up);
    EXPECT_EQ(state_of(*link, 1), PathState::Standby) << "and may be called again";
  }
}

TEST_F(StandbyRepairTest, ATryThatTheConnectorLeavesLeavesNothingWithTheAcceptor) {
  begin_to_open(1, "n1");
  port("n1", Port::Down);
  ends_.advance_ns(kReopenToAnswerNs);  // nothing gets through
  ends_.carry_all();
  EXPECT_EQ(queue_pairs_of(ends_.sender(), 1), 0u);
  EXPECT_EQ(queue_pairs_of(ends_.receiver(), 1), 0u);
  EXPECT_EQ(count_said(ends_.b, MessageType::Fence), 0)
      << "nothing was sent, so nothing is counted";
}

TEST_F(StandbyRepairTest, ATryThatABetterPathMakesNeedlessRestsOnBothSides) {
  begin_to_open(1, "n1");
  begin_to_open(0, "n0");
  ends_.carry_all();
  for (Link* const link : {&ends_.sender(), &ends_.receiver()}) {
    EXPECT_EQ(state_of(*link, 0), PathState::Up);
    EXPECT_EQ(state_of(*link, 1), PathState::Standby);
    EXPECT_EQ(queue_pairs_of(*link, 1), 0u);
  }
}

// A FENCE of a former life must not count for the next one.
TEST_F(StandbyRepairTest, AFenceOfAPathThatRestsChangesNothing) {
  begin_to_open(0, "n0");
  ends_.carry_all();
  Link& link = ends_.receiver();
  ASSERT_EQ(state_of(link, 1), PathState::Standby);
  const std::uint32_t epoch = link.peer_link().paths()[1].health.epoch;
  EXPECT_TRUE(link.repair().on(Fence{.path = 1, .epoch = epoch, .cause = "late", .taken = {}}));
  ends_.carry_all();
  EXPECT_EQ(state_of(link, 1), PathState::Standby);
  EXPECT_EQ(count_said(ends_.b, MessageType::Fence), 0);
}

}  // namespace
}  // namespace mesh::engine

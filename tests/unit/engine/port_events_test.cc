// What devices say by themselves reaches the control pass, named by rail.

#include "tests/unit/base/log_capture.h"
#include "tests/unit/engine/bed.h"

#include <gtest/gtest.h>

namespace mesh {
namespace {

using testkit::Bed;
using testkit::LogCapture;
using testkit::Talk;

constexpr testkit::Seat kA{0, 0}, kB{1, 0};
const soft::Fault kSecondPortDown{.kind = soft::FaultKind::PortDown, .nic = "n1"};

class PortEvents : public testing::Test {
 protected:
  PortEvents() : bed_({.fabric = testkit::kHalves}) { set_log_level(LogLevel::Info); }

  Bed bed_;
};

TEST_F(PortEvents, APortThatGoesDownAndUpIsSaidOfItsRailOnly) {
  const LogCapture log;
  ASSERT_TRUE(bed_.hosts[0].provider->faults().arm(kSecondPortDown).ok());
  bed_.rounds(10);
  EXPECT_EQ(log.count(LogLevel::Info, "rail 1 n1:1: its port is down"), 1) << log.joined();
  bed_.hosts[0].provider->faults().lift(kSecondPortDown);
  bed_.rounds(10);
  EXPECT_EQ(log.count(LogLevel::Info, "rail 1 n1:1: its port is up"), 1) << log.joined();
  EXPECT_EQ(log.count(LogLevel::Info, "its port is"), 2) << log.joined();
}

TEST_F(PortEvents, AQueuePairThatFailsIsSaidWithItsNumber) {
  Talk talk(bed_, kA, kB, 4096);
  talk.exchange(4096);
  const LogCapture log;
  EXPECT_EQ(bed_.hosts[0].provider->fail_queue_pairs("n1", 0), 1u);
  bed_.rounds(10);
  EXPECT_EQ(log.count(LogLevel::Info, "rail 1 n1:1: queue pair 0x"), 1) << log.joined();
}

TEST_F(PortEvents, AnEngineThatEndsLeavesNothingToHear) {
  bed_.close_context(kA);
  bed_.hosts[0].engine.reset();
  ASSERT_TRUE(bed_.hosts[0].provider->faults().arm(kSecondPortDown).ok());
}

}  // namespace
}  // namespace mesh

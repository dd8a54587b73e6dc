// A communicator that ends while its peers misbehave: bounded, and nothing is touched after it is gone.

#include "tests/unit/base/log_capture.h"
#include "tests/unit/engine/bed.h"

#include <gtest/gtest.h>

namespace mesh {
namespace {

using testkit::Bed;
using testkit::Talk;

constexpr testkit::Seat kA{0, 0}, kB{1, 0};
constexpr std::uint64_t kMs = 1'000'000;

class CloseContext : public testing::Test {
 protected:
  // A send that nobody executes, so that closing has something to wait for.
  void SetUp() override {
    bed.tick_ns = kMs;
    ASSERT_TRUE(talk.receive({.bytes = 1 << 20}).ok());
    bed.rounds(20);
    bed.hosts[1].nics_stand = bed.hosts[1].loops_stand = true;
    ASSERT_TRUE(talk.send({.bytes = 1 << 20}).ok());
    bed.data_round();
  }
  testkit::LogCapture log;
  Bed bed{{}};
  Talk talk{bed, kA, kB, 1 << 20};
};

TEST_F(CloseContext, StoppedPeerIsNotWaitedForLongerThanASecond) {
  const std::uint64_t began_ns = bed.now_ns();
  bed.hosts[1].control_stands = true;
  bed.close_context(kA);
  EXPECT_LE(bed.now_ns() - began_ns, 1005 * kMs);
  EXPECT_EQ(bed.stats(0).registrations, 0u);
}

TEST_F(CloseContext, PeerThatEndsInTheMeantime) {
  bed.meanwhile = [this] {
    bed.hosts[1].contexts.clear();
    bed.hosts[1].engine.reset();
  };
  bed.close_context(kA);
  EXPECT_EQ(bed.stats(0).contexts, 0u);
}

}  // namespace
}  // namespace mesh

// A communicator that ends while its peers misbehave: bounded, and nothing is touched after it is
// gone.

#include "tests/unit/base/log_capture.h"
#include "tests/unit/engine/bed.h"

#include <gtest/gtest.h>

namespace mesh {
namespace {

using testkit::Bed;
using testkit::Talk;

using testkit::kA, testkit::kB;
constexpr std::uint64_t kMs = 1'000'000;

class CloseContext : public testing::Test {
 protected:
  // A send that nobody executes, so that closing has something to wait for.
  void SetUp() override {
    bed_.tick_ns = kMs;
    ASSERT_TRUE(talk_.receive({.bytes = 1 << 20}).ok());
    bed_.rounds(20);
    bed_.hosts[1].nics_stand = bed_.hosts[1].loops_stand = true;
    ASSERT_TRUE(talk_.send({.bytes = 1 << 20}).ok());
    bed_.data_round();
  }
  testkit::LogCapture log_;
  Bed bed_{{}};
  Talk talk_{bed_, kA, kB, 1 << 20};
};

TEST_F(CloseContext, StoppedPeerIsNotWaitedForLongerThanASecond) {
  const std::uint64_t began_ns = bed_.now_ns();
  bed_.hosts[1].control_stands = true;
  bed_.close_context(kA);
  EXPECT_LE(bed_.now_ns() - began_ns, 1005 * kMs);
  EXPECT_EQ(bed_.stats(0).registrations, 0u);
}

TEST_F(CloseContext, PeerThatEndsInTheMeantime) {
  bed_.meanwhile = [this] {
    bed_.hosts[1].contexts.clear();
    bed_.hosts[1].engine.reset();
  };
  bed_.close_context(kA);
  EXPECT_EQ(bed_.stats(0).contexts, 0u);
}

}  // namespace
}  // namespace mesh

// A communicator that ends while its peers misbehave. The end is bounded in time, and nothing
// touches the communicator afterwards.

#include "tests/unit/base/log_capture.h"
#include "tests/unit/engine/bed.h"

namespace mesh {
namespace {

using testkit::Bed, testkit::Talk;

using testkit::kA, testkit::kB;
constexpr std::uint64_t kMillisecond = 1'000'000;

class CloseContext : public testing::Test {
 protected:
  // Posts a send that the stopped peer does not execute, so that closing has something to wait for.
  void SetUp() override {
    bed_.tick_ns = kMillisecond;
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

// The bed's clock would advance whenever close_context() looked at a peer.
TEST_F(CloseContext, StoppedPeerIsNotWaitedFor) {
  const std::uint64_t began_ns = bed_.now_ns();
  bed_.hosts[1].control_stands = true;
  int waits = 0;
  bed_.meanwhile = [&waits] { ++waits; };
  bed_.close_context(kA);
  EXPECT_EQ(waits, 0);
  EXPECT_EQ(bed_.now_ns(), began_ns);
  EXPECT_EQ(bed_.stats(0).registrations, 0u);
}

TEST_F(CloseContext, PeerThatEndsAfterwards) {
  bed_.close_context(kA);
  bed_.hosts[1].contexts.clear();
  bed_.hosts[1].engine.reset();
  for (int i = 0; i < 3000 && bed_.hosts[0].engine->waits_for_peers(); ++i) bed_.rounds(1);
  EXPECT_EQ(bed_.stats(0).contexts, 0u);
}

}  // namespace
}  // namespace mesh

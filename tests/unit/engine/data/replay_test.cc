// Other paths carry at once what a lost path was to carry. Only stripes that were begun on the lost
// path wait for its fence, and nothing waits behind them.

#include "engine/data/peer_link.h"
#include "engine/data/progress_loop.h"
#include "tests/prelude.h"
#include "tests/unit/engine/bed.h"
#include "tests/unit/engine/data/lose_path.h"
#include "tests/unit/engine/units.h"

namespace mesh {
namespace {

using testkit::Bed, testkit::delay_writes, testkit::kKiB, testkit::lose_path, testkit::Talk;

using testkit::kA, testkit::kB;
constexpr std::size_t kRoom = 1024 * kKiB;
constexpr std::uint64_t kLong = 4'000'000'000;  // longer than any test takes

// Returns a policy with which one work request fills a path.
TransferPolicy narrow_paths() {
  TransferPolicy policy;
  policy.qps = 1;
  policy.stripe_bytes = 16 * kKiB;
  policy.wr_bytes = policy.inflight_bytes = 17 * kKiB;
  return policy;
}

class ReplayTest : public testing::Test {
 protected:
  // Stops or resumes control on all hosts. While it is stopped, no fence completes.
  static void let_control_stand(Bed& bed, bool stands) {
    for (testkit::BedHost& host : bed.hosts) host.control_stands = stands;
  }
  // Tests the request once: a tested request is posted without waiting for a batch.
  static Request* asked_about(const Result<Request*>& request) {
    EXPECT_EQ(test(**request, nullptr).code(), Errc::WouldBlock);
    return *request;
  }
  static std::uint64_t bytes_over(const Talk& talk, std::uint32_t path) {
    return talk.pair.send->link.paths()[path].counters().bytes_sent;
  }
};

TEST_F(ReplayTest, StripeOfWhichNothingIsPostedLeavesAPathThatIsFull) {
  Bed bed({.fabric = testkit::kThreeCables, .policy = narrow_paths()});
  Talk talk(bed, kA, kB, kRoom);
  Request* const receiving = asked_about(talk.receive({.bytes = 48 * kKiB}));
  Request* const next = asked_about(talk.receive({.at = 48 * kKiB, .bytes = 8}));
  bed.rounds(100);
  for (const char* nic : {"n0", "n1"}) delay_writes(bed.hosts[0], nic, kLong);
  Request* const sending = asked_about(talk.send({.bytes = 48 * kKiB}));  // a stripe on each path
  bed.rounds(10);
  const std::uint64_t lost_bytes = bytes_over(talk, 0), third_bytes = bytes_over(talk, 2);
  lose_path(*talk.pair.send, 0);
  ASSERT_TRUE(bed.until(
      [&] { return talk.pair.send->link.paths()[0].health.state == engine::PathState::Down; }));
  bed.rounds(1000);
  EXPECT_EQ(bytes_over(talk, 2), third_bytes + lost_bytes) << "the second path is full";
  let_control_stand(bed, true);
  lose_path(*talk.pair.send, 1);
  Request* const small = asked_about(talk.send({.at = 48 * kKiB, .bytes = 8}));
  EXPECT_TRUE(bed.finish_all({small, next})) << "the third path is up";
  EXPECT_EQ(test(*sending, nullptr).code(), Errc::WouldBlock)
      << "its stripe on the second path waits for the fence";
  let_control_stand(bed, false);
  EXPECT_TRUE(bed.finish_all({sending, receiving}));
  EXPECT_TRUE(talk.holds(0, 0, 48 * kKiB + 8));
}

TEST_F(ReplayTest, StripeUnderWayOfWhichNothingIsPostedGoesElsewhereAtOnce) {
  Bed bed({.fabric = testkit::kHalves, .policy = narrow_paths()});
  Talk talk(bed, kA, kB, kRoom);
  Request* const first_receive = asked_about(talk.receive({.bytes = 32 * kKiB}));
  Request* const second_receive = asked_about(talk.receive({.at = 32 * kKiB, .bytes = 64 * kKiB}));
  bed.rounds(100);
  delay_writes(bed.hosts[0], "n1", kLong);
  Request* const first = asked_about(talk.send({.bytes = 32 * kKiB}));  // fills the second path
  bed.rounds(50);
  Request* const second = asked_about(talk.send({.at = 32 * kKiB, .bytes = 64 * kKiB}));
  bed.rounds(500);
  ASSERT_NE(bytes_over(talk, 1), 0u);
  ASSERT_EQ(test(*second, nullptr).code(), Errc::WouldBlock)
      << "a part of it was to go over the second path";
  let_control_stand(bed, true);
  lose_path(*talk.pair.send, 1);
  EXPECT_TRUE(bed.finish_all({second, second_receive}));
  EXPECT_EQ(test(*first, nullptr).code(), Errc::WouldBlock);
  let_control_stand(bed, false);
  EXPECT_TRUE(bed.finish_all({first, first_receive}));
  EXPECT_TRUE(talk.holds(0, 0, 96 * kKiB));
}

TEST_F(ReplayTest, NothingWaitsBehindAStripeThatWasBegunOnALostPath) {
  TransferPolicy policy = narrow_paths();
  policy.stripe_bytes = 128 * kKiB;
  Bed bed({.fabric = testkit::kHalves, .policy = policy});
  Talk talk(bed, kA, kB, kRoom);
  Request* const large_receive = asked_about(talk.receive({.bytes = 256 * kKiB}));
  Request* const small_receive = asked_about(talk.receive({.at = 256 * kKiB, .bytes = 8}));
  bed.rounds(100);
  delay_writes(bed.hosts[0], "n1", kLong);
  Request* const large = asked_about(talk.send({.bytes = 256 * kKiB}));
  Request* const small = asked_about(talk.send({.at = 256 * kKiB, .bytes = 8}));
  bed.rounds(500);
  ASSERT_EQ(bytes_over(talk, 1), 17 * kKiB) << "one of its stripes is begun there";
  let_control_stand(bed, true);
  lose_path(*talk.pair.send, 1);
  EXPECT_TRUE(bed.finish_all({small, small_receive}));
  EXPECT_EQ(test(*large, nullptr).code(), Errc::WouldBlock);
  let_control_stand(bed, false);
  EXPECT_TRUE(bed.finish_all({large, large_receive}));
  EXPECT_TRUE(talk.holds(0, 0, 256 * kKiB + 8));
}

// A link may get bulk queue pairs while a message is under way: the message's stripes are still
// those that were posted.
TEST_F(ReplayTest, StripesStayThoseThatWerePostedWhenAQueuePairIsAdded) {
  TransferPolicy policy;
  policy.qps = 3;
  Bed bed({.policy = policy});
  Talk talk(bed, kA, kB, kRoom);
  engine::PathSet& paths = talk.pair.send->link.paths();
  const auto share_out = [&] {
    paths.order();
    talk.pair.send->choose_express();
  };
  std::unique_ptr<engine::QueuePair> late;
  {
    const engine::ProgressLoop::Guard guard(talk.pair.send->loop);
    late = std::move(paths[0].queue_pairs.back());
    paths[0].queue_pairs.pop_back();
    share_out();
  }
  Request* const receiving = asked_about(talk.receive({.bytes = 256 * kKiB}));
  bed.rounds(100);
  delay_writes(bed.hosts[0], "", kLong);
  Request* const sending = asked_about(talk.send({.bytes = 256 * kKiB}));
  EXPECT_EQ(sending->cut.open, 2u);
  {
    const engine::ProgressLoop::Guard guard(talk.pair.send->loop);
    paths[0].queue_pairs.push_back(std::move(late));
    share_out();
  }
  lose_path(*talk.pair.send, 0);
  bed.hosts[0].provider->faults().disarm_all();
  EXPECT_TRUE(bed.finish_all({sending, receiving}));
  EXPECT_EQ(paths[0].health.replayed_stripes, 2u);
  EXPECT_TRUE(talk.holds(0, 0, 256 * kKiB));
}

}  // namespace
}  // namespace mesh

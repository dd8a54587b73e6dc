#include "engine/link/widening.h"

#include "engine/link/link.h"
#include "src/base/timeouts.h"
#include "tests/unit/base/log_capture.h"
#include "tests/unit/engine/link/fake_host.h"

namespace mesh::engine {
namespace {

using testkit::count_said, testkit::lose_path, testkit::state_of, testkit::TwoEnds;

// A link of two paths whose bulk queue pairs are made late.
class WideningTest : public ::testing::Test {
 protected:
  WideningTest() {
    ends_.b.settled.policy.late_qps = true;
    ends_.come_up();
  }

  static std::size_t queue_pairs(Link& link, std::uint32_t path) {
    return link.peer_link().paths()[path].queue_pairs.size();
  }
  std::size_t all() { return 1 + ends_.sender().peer_link().policy().qps; }
  void want() {
    const ProgressLoop::Guard guard(ends_.sender().context().loop);
    EXPECT_TRUE(ends_.sender().peer_link().paths().bulk().empty());
    ends_.sender().peer_link().late().want();
  }
  void expect_wide() {
    for (const std::uint32_t path : {0u, 1u}) {
      EXPECT_EQ(queue_pairs(ends_.sender(), path), all());
      EXPECT_EQ(queue_pairs(ends_.receiver(), path), all());
      EXPECT_EQ(state_of(ends_.sender(), path), PathState::Up);
      EXPECT_EQ(state_of(ends_.receiver(), path), PathState::Up);
    }
    EXPECT_EQ(ends_.sender().peer_link().paths().bulk().count(), 2 * (all() - 1));
  }

  testkit::LogCapture log_;
  TwoEnds ends_;
};

TEST_F(WideningTest, ALinkComesUpWithItsExpressQueuePairsOnly) {
  for (const std::uint32_t path : {0u, 1u}) {
    EXPECT_EQ(queue_pairs(ends_.sender(), path), 1u);
    EXPECT_EQ(queue_pairs(ends_.receiver(), path), 1u);
    EXPECT_EQ(ends_.sender().peer_link().paths()[path].device->queue_pair_count(), 1u);
  }
  EXPECT_EQ(ends_.connect.state, StageState::Ready);
  ends_.carry_all();
  EXPECT_EQ(queue_pairs(ends_.sender(), 0), 1u) << "nobody has asked";
}

TEST_F(WideningTest, AMessageThatWantsThemGetsThemOnEveryPath) {
  want();
  ends_.carry_all();
  expect_wide();
  EXPECT_FALSE(ends_.sender().peer_link().late().wanted());
}

TEST_F(WideningTest, APathThatIsLostMeanwhileIsOpenedAgainWithAll) {
  want();
  ends_.a.links.tend();
  ASSERT_EQ(count_said(ends_.a, MessageType::Widen), 1);
  lose_path(ends_.sender(), 0);
  ends_.carry_all();
  ends_.advance_ns(kTryPauseMinNs);
  ends_.carry_all();
  expect_wide();
}

TEST_F(WideningTest, APathThatThePeerLosesMeanwhileIsOpenedAgainWithAll) {
  want();
  ends_.a.links.tend();
  lose_path(ends_.receiver(), 0);
  ends_.carry_all();
  ends_.advance_ns(kTryPauseMinNs);
  ends_.carry_all();
  expect_wide();
}

// The acceptor's late queue pairs have joined, and the connector's have not.
TEST_F(WideningTest, APathThatIsLostBeforeTheAnswerComesIsFencedWithMoreCountsThanOurs) {
  want();
  ends_.a.links.tend();
  ends_.carry();         // WIDEN
  ends_.b.links.tend();  // its queue pairs come up
  ends_.b.links.tend();
  ASSERT_EQ(count_said(ends_.b, MessageType::Widened), 1);
  ASSERT_EQ(queue_pairs(ends_.receiver(), 0), all());
  lose_path(ends_.sender(), 0);
  ends_.carry_all();
  EXPECT_NE(state_of(ends_.sender(), 0), PathState::Up);
  ends_.advance_ns(kTryPauseMinNs);
  ends_.carry_all();
  expect_wide();
}

// A bring-up for the answer would meet the one that opens the path again.
TEST_F(WideningTest, AnAnswerForAPathThatIsLostRaisesNothing) {
  want();
  ends_.a.links.tend();
  ends_.carry();
  ends_.b.links.tend();
  ends_.b.links.tend();
  ASSERT_EQ(count_said(ends_.b, MessageType::Widened), 1);
  lose_path(ends_.sender(), 0);
  ends_.carry();
  ends_.a.links.tend();
  EXPECT_FALSE(ends_.sender().rises(0));
}

TEST_F(WideningTest, AnAnswerThatDoesNotComeLosesThePathOnceThePeerHasHeardTheQuestion) {
  want();
  ends_.a.links.tend();
  ASSERT_EQ(count_said(ends_.a, MessageType::Widen), 1);
  ends_.advance_ns(kReopenToAnswerNs);
  ends_.a.links.tend();
  EXPECT_EQ(state_of(ends_.sender(), 0), PathState::Up) << "the control network is silent";
  ends_.carry();  // WIDEN there, ACKNOWLEDGE back
  EXPECT_LE(ends_.a.due_ns, ends_.a.now_ns() + kReopenToAnswerNs);
  ends_.advance_ns(kReopenToAnswerNs);
  ends_.a.links.tend();
  EXPECT_EQ(count_said(ends_.a, MessageType::Widen), 1)
      << "it is said again, as the answer may be lost";
  ends_.advance_ns(10 * kReopenToAnswerNs);
  ends_.a.links.tend();
  EXPECT_EQ(state_of(ends_.sender(), 0), PathState::Up) << "the control network is silent";
  ends_.carry();
  ends_.advance_ns(kReopenToAnswerNs);
  ends_.a.links.tend();
  EXPECT_EQ(state_of(ends_.sender(), 0), PathState::Quarantined);
  EXPECT_EQ(ends_.sender().peer_link().paths()[0].health.last_cause,
            "it got no bulk queue pairs: the peer has not answered WIDEN");
  EXPECT_TRUE(ends_.sender().peer_link().paths()[0].late.empty());
}

TEST_F(WideningTest, ARefusalLosesThePath) {
  want();
  ends_.a.links.tend();
  const Path& path = ends_.sender().peer_link().paths()[0];
  const Path& theirs = ends_.receiver().peer_link().paths()[0];
  EXPECT_EQ(theirs.queue_pairs.size(), 1u);
  lose_path(ends_.receiver(), 0);
  ends_.carry();
  ends_.b.links.tend();
  ends_.carry();
  ends_.a.links.tend();
  EXPECT_NE(path.health.state, PathState::Up);
  EXPECT_TRUE(path.late.empty());
}

TEST_F(WideningTest, AWidenOfAnotherSizeOrPathBreaksTheProtocol) {
  Widening acceptor(ends_.receiver());
  WirePath ends;
  ends.qpn.resize(all());
  EXPECT_FALSE(acceptor.on(Widen{.path = 0, .epoch = 0, .ends = ends}));
  ends.qpn.resize(all() - 1);
  EXPECT_FALSE(acceptor.on(Widen{.path = 2, .epoch = 0, .ends = ends}));
  EXPECT_TRUE(log_.warned("widens path", 2));
  EXPECT_TRUE(acceptor.on(Widen{.path = 0, .epoch = 0, .ends = ends}));
}

TEST_F(WideningTest, AnAnswerThatNobodyAskedForChangesNothing) {
  Widening connector(ends_.sender());
  EXPECT_TRUE(connector.on(
      Widened{.path = 0, .epoch = 0, .result = Errc::Unreachable, .text = "no", .ends = {}}));
  EXPECT_FALSE(connector.may_begin());
}

TEST_F(WideningTest, TheEndOfALinkEndsTheLateQueuePairsToo) {
  want();
  ends_.a.links.tend();
  Path& path = ends_.sender().peer_link().paths()[0];
  ASSERT_EQ(path.late.size(), all() - 1);
  ends_.sender().take_down(Errc::PeerClosed);
  EXPECT_TRUE(path.late.empty());
  EXPECT_EQ(path.device->queue_pair_count(), 0u);
}

}  // namespace
}  // namespace mesh::engine

#include "engine/link/openings.h"

#include "engine/link/half_open.h"
#include "engine/link/link.h"
#include "src/base/timeouts.h"
#include "tests/unit/base/log_capture.h"
#include "tests/unit/engine/link/fake_host.h"

#include <gtest/gtest.h>

namespace mesh::engine {
namespace {

using testkit::TwoEnds;

TEST(Openings, AChannelLiesWithItsListenerWhenTheConnectIsReady) {
  TwoEnds ends;
  ends.come_up();
  ASSERT_EQ(ends.connect.state, StageState::Ready);
  ASSERT_EQ(ends.listener().arrived.size(), 1u);
  EXPECT_EQ(ends.listener().arrived.front()->index, ends.connect.channel->index);
}

TEST(Openings, WhereTheListenerWasClosedMeanwhileTheConnectFails) {
  TwoEnds ends;
  ends.dial();
  ends.carry();
  ends.b.contexts[0]->listeners.clear();
  ends.carry_all();
  EXPECT_EQ(ends.connect.state, StageState::Failed);
  EXPECT_EQ(ends.connect.error, Errc::PeerClosed);
}

TEST(Openings, AListenerTakesNoMoreThanItsBound) {
  TwoEnds ends;
  ends.listener().arrived.resize(kArrivedMax);
  ends.come_up();
  EXPECT_EQ(ends.connect.error, Errc::Exhausted);
  EXPECT_EQ(ends.listener().arrived.size(), kArrivedMax);
}

TEST(Openings, AnOpenThatIsNotAnsweredFailsItsConnectAndNotTheLink) {
  TwoEnds ends;
  ends.dial();
  while (ends.connect.state == StageState::Waiting) {
    ends.carry();
    ends.a.links.tend(), ends.b.links.tend();
  }
  ASSERT_EQ(ends.connect.state, StageState::Opening);
  ends.a.wire.said.clear();
  ends.advance_ns(kHandshakeStepToAnswerNs);
  ends.sender().openings().expire();
  EXPECT_EQ(ends.connect.error, Errc::Timeout);
  EXPECT_EQ(ends.sender().state(), LinkState::Up);
}

TEST(Openings, AConnectThatFailsOnALinkThatIsUpFailsItsAccept) {
  const testkit::LogCapture log;
  TwoEnds ends;
  ends.come_up();
  for (int times = 0; times < 2; ++times) {
    ends.sender().send(Decline{.acceptor_context = ends.sender().identity().peer_context,
                               .listener = ends.listener().nonce,
                               .reason = Errc::System,
                               .text = "host a cannot open a channel"});
  }
  ends.carry_all();
  EXPECT_EQ(ends.listener().refused, Errc::System);
  EXPECT_EQ(log.count(LogLevel::Warn, "peer a: host a cannot open a channel"), 1) << log.joined();
  EXPECT_EQ(ends.receiver().state(), LinkState::Up);
}

TEST(Openings, AnIndexIsUsedAgainWithAnotherLife) {
  TwoEnds ends;
  ends.come_up();
  Channel* const first = ends.connect.channel;
  const std::uint32_t index = first->index;
  PendingConnect second;
  second.link = &ends.sender();
  second.listener = ends.connect.listener;
  ends.sender().waiting.push_back(&second);  // keeps the link after its first channel has closed
  ends.receiver().farewell().begin_close(*ends.listener().arrived.front());
  ends.sender().farewell().begin_close(*first);
  ends.listener().arrived.clear();
  ends.carry_all();
  ends.sender().openings().open(second);
  ends.carry_all();
  ASSERT_EQ(second.state, StageState::Ready);
  EXPECT_EQ(second.channel->index, index);
}

}  // namespace
}  // namespace mesh::engine

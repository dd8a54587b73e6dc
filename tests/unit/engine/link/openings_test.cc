#include "engine/link/openings.h"

#include "engine/link/half_open.h"
#include "engine/link/link.h"
#include "src/base/timeouts.h"
#include "tests/prelude.h"
#include "tests/unit/base/log_capture.h"
#include "tests/unit/engine/link/fake_host.h"
#include "tests/unit/engine/patience.h"

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
  ends.sender().openings().tend();
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
  EXPECT_TRUE(log.warned("peer a: host a cannot open a channel"));
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

// A link that is up. More connects wait for it than have room in the memory that it begins with.
class GrowingLink : public testing::Test {
 protected:
  void SetUp() override { ends_.come_up(); }
  PendingConnect& begin_connect() {
    auto stage = std::make_unique<PendingConnect>();
    stage->link = &ends_.sender();
    stage->listener = ends_.connect.listener;
    ends_.sender().waiting.push_back(stage.get());
    ends_.sender().openings().open(*stage);
    return *stages_.emplace_back(std::move(stage));
  }
  // Begins connects, and carries what is said, until this side's devices are waited for.
  PendingConnect& begin_until_it_grows(testkit::FakeHost& host, Link& link) {
    host.settled.threading = Threading::Own;
    for (;;) {
      PendingConnect& stage = begin_connect();
      ends_.carry();
      if (link.openings().growing()) return stage;
    }
  }
  void carry_until(const PendingConnect& stage, StageState state) {
    EXPECT_TRUE(testkit::wait_until([&] { return ends_.carry_all(), stage.state == state; }));
  }

  TwoEnds ends_;
  std::vector<std::unique_ptr<PendingConnect>> stages_;
};

TEST_F(GrowingLink, AConnectorOpensChannelsInTheirOrderWhenItsDevicesHaveRegisteredTheirMemory) {
  PendingConnect& first = begin_until_it_grows(ends_.a, ends_.sender());
  PendingConnect& second = begin_connect();
  EXPECT_EQ(first.state, StageState::Waiting);
  EXPECT_EQ(second.state, StageState::Waiting);
  carry_until(second, StageState::Ready);
  ASSERT_EQ(first.state, StageState::Ready);
  EXPECT_EQ(second.channel->index, first.channel->index + 1);
}

TEST_F(GrowingLink, AnAcceptorAnswersInOrderWhenItsDevicesHaveRegisteredTheirMemory) {
  PendingConnect& first = begin_until_it_grows(ends_.b, ends_.receiver());
  PendingConnect& second = begin_connect();
  ends_.carry();
  EXPECT_EQ(first.state, StageState::Opening);
  const std::size_t arrived = ends_.listener().arrived.size();
  carry_until(second, StageState::Ready);
  ASSERT_EQ(ends_.listener().arrived.size(), arrived + 2);
  EXPECT_EQ(ends_.listener().arrived.at(arrived)->index, first.channel->index);
}

TEST_F(GrowingLink, AConnectThatIsGivenUpWhileItsPeerWaitsForDevicesLeavesItsIndex) {
  PendingConnect& given_up = begin_until_it_grows(ends_.b, ends_.receiver());
  const std::size_t free = ends_.sender().indices.free.size();
  ends_.sender().openings().fail(given_up, Errc::Timeout);
  EXPECT_TRUE(testkit::wait_until(
      [&] { return ends_.carry_all(), ends_.sender().indices.free.size() == free + 1; }));
  EXPECT_EQ(ends_.sender().state(), LinkState::Up);
  PendingConnect& next = begin_connect();
  carry_until(next, StageState::Ready);
}

TEST_F(GrowingLink, AConnectFailsWhereItsDeviceNeverRegistersItsMemory) {
  const testkit::LogCapture log;
  PendingConnect& stage = begin_until_it_grows(ends_.a, ends_.sender());
  ends_.advance_ns(kHandshakeStepToAnswerNs);
  ends_.sender().openings().tend();
  EXPECT_EQ(stage.error, Errc::Timeout);
  EXPECT_TRUE(log.warned("no device has registered memory for a channel in 300 s"));
  EXPECT_EQ(ends_.sender().state(), LinkState::Up);
}

TEST_F(GrowingLink, AnIndexWhoseMemoryWasRefusedIsFreeOnceAlthoughTheDeclineFindsNoMemory) {
  const auto next_grows = [this] {
    return ends_.sender().peer_link().memory().waits_for_devices(
        static_cast<std::uint32_t>(ends_.sender().indices.lives.size()));
  };
  while (!next_grows()) carry_until(begin_connect(), StageState::Ready);
  for (const auto& device : ends_.a.contexts[0]->loop.devices) device->gate.close();
  ends_.a.wire.on_said = [](engine::MessageType type) {
    if (type == engine::MessageType::Decline) throw std::bad_alloc();
  };
  EXPECT_EQ(begin_connect().error, Errc::System);
  EXPECT_EQ(ends_.sender().indices.free.size(), 1u);
}

TEST_F(GrowingLink, ALinkThatEndsIsForgottenWhenItsDevicesHaveAnswered) {
  begin_until_it_grows(ends_.a, ends_.sender());
  ends_.sender().take_down(Errc::PeerClosed);
  for (const auto& stage : stages_) EXPECT_NE(stage->state, StageState::Waiting);
  EXPECT_FALSE(ends_.sender().may_be_forgotten());
  EXPECT_TRUE(testkit::wait_until(
      [&] { return ends_.sender().tend(), ends_.sender().openings().growing() == false; }));
}

}  // namespace
}  // namespace mesh::engine

#include "engine/link/farewell.h"

#include "engine/link/link.h"
#include "tests/prelude.h"
#include "tests/unit/base/log_capture.h"
#include "tests/unit/engine/link/fake_host.h"

namespace mesh::engine {
namespace {

using testkit::TwoEnds;

class FarewellTest : public ::testing::Test {
 protected:
  FarewellTest() {
    ends_.come_up();
    receiver_ = ends_.listener().arrived.front();
    ends_.b.contexts[0]->registrations = std::make_unique<RegistrationTable>(
        std::vector<DeviceContext*>{ends_.b.contexts[0]->loop.devices[0].get(),
                                    ends_.b.contexts[0]->loop.devices[1].get()},
        Settings{}, 0);
    region_ = ends_.b.contexts[0]
                  ->registrations
                  ->acquire({.data = room_.data(), .bytes = room_.size()},
                            receiver_->link.paths().rails())
                  .value();
  }
  ~FarewellTest() override {
    ends_.b.contexts[0]->cut_links();
    ends_.b.contexts[0]->registrations->clear();
  }
  bool receive() {
    return irecv(*receiver_, {.data = room_.data(), .bytes = room_.size(), .region = region_}).ok();
  }
  void say_bye() {
    ends_.receiver().farewell().begin_close(*receiver_);
    ends_.sender().farewell().begin_close(*ends_.connect.channel);
    ends_.carry();
    ends_.a.links.tend();
    ASSERT_EQ(ends_.sender().state(), LinkState::ByeSent);
  }
  bool has_said(const testkit::FakeHost& host, MessageType type) const {
    const std::vector<MessageType> types = host.wire.types();
    return std::find(types.begin(), types.end(), type) != types.end();
  }

  TwoEnds ends_;
  std::array<std::byte, 64> room_{};
  Channel* receiver_ = nullptr;
  Registration* region_ = nullptr;
};

TEST_F(FarewellTest, MemoryThatNothingNamesIsGivenBackWithoutAWord) {
  int waits = 0;
  ends_.receiver().farewell().take_back(*receiver_, *region_,
                                        [&](std::uint64_t, const auto&) { return ++waits > 0; });
  EXPECT_EQ(waits, 0);
  EXPECT_TRUE(ends_.b.wire.said.empty());
}

TEST_F(FarewellTest, MemoryOfALiveCreditIsRevokedAndTheAnswerIsWaitedFor) {
  ASSERT_TRUE(receive());
  std::uint64_t bound_ns = 0;
  ends_.receiver().farewell().take_back(*receiver_, *region_,
                                        [&](std::uint64_t bound, const auto& done) {
                                          bound_ns = bound;
                                          EXPECT_TRUE(has_said(ends_.b, MessageType::Revoke));
                                          EXPECT_FALSE(done());
                                          ends_.carry_all();
                                          return done();
                                        });
  EXPECT_EQ(bound_ns, 500'000'000u);
  EXPECT_EQ(ends_.b.counted.revokes, 1u);
  EXPECT_EQ(ends_.receiver().state(), LinkState::Up) << "only the channel is over";
}

TEST_F(FarewellTest, WithoutAnAnswerTheLinkIsCutAndTheNextOneGetsNoSecondWait) {
  const testkit::LogCapture log;
  ASSERT_TRUE(receive());
  ends_.receiver().farewell().take_back(*receiver_, *region_,
                                        [](std::uint64_t, const auto&) { return false; });
  EXPECT_EQ(ends_.receiver().state(), LinkState::Down);
  EXPECT_TRUE(log.warned("no answer within 500 ms"));
  EXPECT_GT(ends_.b.contexts[0]->impatient_until_ns, ends_.b.now_ns());
}

TEST_F(FarewellTest, ACloseIsActedOnWhenItsMessagesAreHereOrTheirTimeIsOver) {
  Farewell& farewell = ends_.receiver().farewell();
  EXPECT_TRUE(farewell.on(Close{.channel = receiver_->index, .messages = 1}));
  EXPECT_EQ(farewell.pending_answers(), 1u);
  EXPECT_FALSE(receiver_->closing.closed_there);
  ends_.advance_ns(1'000'000'000);
  farewell.tend();
  EXPECT_EQ(farewell.pending_answers(), 0u);
  EXPECT_TRUE(receiver_->closing.closed_there);
}

TEST_F(FarewellTest, ALinkWithoutChannelsSaysByeAndIsForgotten) {
  ends_.sender().farewell().begin_close(*ends_.connect.channel);
  ends_.receiver().farewell().begin_close(*receiver_);
  EXPECT_TRUE(has_said(ends_.a, MessageType::Close));
  ends_.carry_all();
  EXPECT_TRUE(ends_.a.contexts[0]->links.empty());
  EXPECT_TRUE(ends_.b.contexts[0]->links.empty());
  EXPECT_EQ(ends_.a.forgotten, 1);
}

TEST_F(FarewellTest, APeerThatDoesNotAnswerByeIsWaitedForASecond) {
  ASSERT_NO_FATAL_FAILURE(say_bye());
  ends_.advance_ns(1'000'000'000);
  ends_.a.links.tend();
  EXPECT_TRUE(ends_.a.contexts[0]->links.empty());
}

// BYE was lost with the connection, which the acceptor asks for by SUMMON.
TEST_F(FarewellTest, APeerThatHasLostTheConnectionIsNotWaitedForAfterBye) {
  ASSERT_NO_FATAL_FAILURE(say_bye());
  ends_.sender().redial().on_summon(ends_.receiver().redial().claim(), ends_.a.wire.next++);
  ends_.a.links.tend();
  EXPECT_TRUE(ends_.a.contexts[0]->links.empty());
}

}  // namespace
}  // namespace mesh::engine

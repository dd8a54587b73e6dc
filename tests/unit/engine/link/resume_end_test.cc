// The control connection is lost and does not come back, or something ends before it does.

#include "tests/unit/engine/link/resume_fixture.h"

namespace mesh {
namespace {

using engine::FrameHeader, engine::MessageType, testkit::Bed, testkit::ControlProxy, testkit::Fate,
    testkit::kA, testkit::kB, testkit::kMs, testkit::kSecond, testkit::ResumeTest, testkit::Talk;

TEST_F(ResumeTest, WhereNobodyListensAnyMoreThePeerIsGoneAtOnce) {
  Talk talk(bed_, kA, kB, 4096);
  wait_on(talk);
  bed_.tick_ns = 100'000;
  const std::uint64_t began_ns = bed_.now_ns();
  proxy_.refuse();
  proxy_.cut();
  expect_lost();
  EXPECT_LT(bed_.now_ns() - began_ns, kSecond);
  EXPECT_TRUE(log_.warned(
      "peer b is lost: nobody listens on its control port any more, see its log (127.0.0.1:"));
  EXPECT_TRUE(log_.warned("peer a is lost: host a: its end of the link has ended"));
  EXPECT_TRUE(log_.warned("", 2));
  end(talk);
}

TEST_F(ResumeTest, APeerThatKnowsTheLinkNoMoreHasGone) {
  Talk talk(bed_, kA, kB, 4096);
  wait_on(talk);
  bed_.hosts[0].control_stands = true;
  proxy_.cut();
  bed_.close_context(kB);
  bed_.tick_ns = kMs;
  ASSERT_TRUE(bed_.until([&] { return bed_.stats(1).links == 0; }));
  bed_.hosts[0].control_stands = false;
  EXPECT_EQ(bed_.finish(sending_).code(), Errc::PeerGone);
  EXPECT_TRUE(log_.warned("peer b is lost: host b: its end of the link has ended"));
  deregister_memory(*talk.pair.send, talk.source_region);
  close(talk.pair.send);
  EXPECT_TRUE(bed_.empties());
}

// The peer's device answers nothing either.
TEST_F(ResumeTest, NoAnswerIsAnErrorAfterThePathTimeout) {
  Talk talk(bed_, kA, kB, 4096);
  wait_on(talk);
  const std::uint64_t began_ns = bed_.now_ns();
  proxy_.play_dead();
  proxy_.cut();
  const soft::Fault gone{.kind = soft::FaultKind::PeerLost, .peer_host = "b"};
  ASSERT_TRUE(bed_.hosts[0].provider->faults().arm(gone).ok());
  bed_.tick_ns = kMs;
  EXPECT_EQ(bed_.finish(sending_).code(), Errc::PeerGone);
  EXPECT_GE(bed_.now_ns() - began_ns, 30 * kSecond) << "NCCL_MESH_PATH_TIMEOUT";
  EXPECT_LE(bed_.now_ns() - began_ns, 38 * kSecond) << log_.joined();
  EXPECT_TRUE(log_.warned("peer b is lost: no way back to its control port in 3"));
  EXPECT_TRUE(log_.warned(fmt::format("tried 127.0.0.1:{}; last: 127.0.0.1", proxy_.port())));
  EXPECT_EQ(bed_.finish(receiving_).code(), Errc::PeerGone);
  end(talk);
}

// Control runs over one of two cables, which is pulled so many rounds after a message began.
class ControlOverACable : public ResumeTest, public testing::WithParamInterface<int> {
 protected:
  ControlOverACable() : ResumeTest({.fabric = testkit::kHalves}) {
    proxy_.stand_at_second_address();
  }
  static void TearDownTestSuite() {
    std::printf("control over a cable, pulled 20 times: failover in %.1f ms at most\n",
                g_longest_ms);
  }
  static inline double g_longest_ms = 0;
};

TEST_P(ControlOverACable, ThatIsPulledFailsOverAtOnce) {
  Talk talk(bed_, kA, kB, 1 << 20);
  Request* const receiving = *talk.receive({.bytes = 1 << 20});
  bed_.rounds(20);
  const soft::Fault slow{.kind = soft::FaultKind::WriteDelay, .delay_ns = 10'000};
  ASSERT_TRUE(bed_.hosts[0].provider->faults().arm(slow).ok());
  bed_.hosts[0].nics_stand = GetParam() % 2 == 0;  // stripes have not left, or not arrived
  Request* const sending = *talk.send({.bytes = 1 << 20});
  bed_.rounds(GetParam() / 2);
  proxy_.mute_first_address();
  const soft::Fault pulled{.kind = soft::FaultKind::PortDown, .nic = "n0"};
  for (testkit::BedHost& host : bed_.hosts) ASSERT_TRUE(host.provider->faults().arm(pulled).ok());
  bed_.hosts[0].nics_stand = false;
  const std::uint64_t began_ns = bed_.now_ns();
  bed_.tick_ns = 100'000;
  EXPECT_TRUE(bed_.finish(receiving).ok() && bed_.finish(sending).ok());
  EXPECT_TRUE(bed_.until([this] { return resumes() == 2; })) << "on each side, " << log_.joined();
  g_longest_ms = std::max(g_longest_ms, static_cast<double>(bed_.now_ns() - began_ns) / 1e6);
  EXPECT_LE(g_longest_ms, 500) << log_.joined();
  talk.end();
}

INSTANTIATE_TEST_SUITE_P(Moments, ControlOverACable, testing::Range(0, 20));

TEST_F(ResumeTest, AMissingMessageIsAProtocolError) {
  Talk talk(bed_, kA, kB, 4096);
  wait_on(talk);
  int met = 0;
  proxy_.judge = [&met](const FrameHeader& header, bool) {
    return header.type == MessageType::Open && ++met == 1 ? Fate::Skip : Fate::Pass;
  };
  HandleBytes first{}, second{};
  for (HandleBytes* handle : {&first, &second}) {
    ASSERT_TRUE(bed_.hosts[1].engine->listen(*bed_.hosts[1].contexts[0], 0, *handle).ok());
    EXPECT_EQ(bed_.hosts[0].engine->connect(*bed_.hosts[0].contexts[0], 0, *handle).code(),
              Errc::WouldBlock);
  }
  EXPECT_EQ(bed_.finish(receiving_).code(), Errc::Protocol);
  EXPECT_TRUE(log_.warned("peer a: message 5 after 3"));
}

// ---- Ends of other objects while the connection is away.

TEST_F(ResumeTest, ACommunicatorEndsInBoundedTimeMeanwhile) {
  for (const testkit::Seat& first : {kA, kB}) {
    Bed bed({});
    ControlProxy proxy;
    bed.each_round = [&] { proxy.pump(); };
    bed.each_handle = [&](HandleBytes& handle) { proxy.stand_before(handle); };
    Talk talk(bed, kA, kB, 4096);
    ASSERT_TRUE(talk.receive({.bytes = 64}).ok());
    proxy.play_dead();
    proxy.cut();
    bed.rounds(100);
    bed.tick_ns = kMs;
    const std::uint64_t began_ns = bed.now_ns();
    bed.close_context(first);
    EXPECT_LE(bed.now_ns() - began_ns, 1010 * kMs);
    bed.close_context(first.host == 0 ? kB : kA);
    EXPECT_TRUE(bed.empties());
    EXPECT_LE(bed.now_ns() - began_ns, 4 * kSecond);
  }
}

TEST_F(ResumeTest, WhatWasClosedMeanwhileIsSaidWhenItIsBack) {
  Talk talk(bed_, kA, kB, 4096);
  talk.exchange(4096);
  proxy_.cut();
  talk.end();
  EXPECT_TRUE(bed_.empties());
  EXPECT_TRUE(log_.warned("", 0));
}

TEST_F(ResumeTest, LostByeIsNoError) {
  Talk talk(bed_, kA, kB, 4096);
  proxy_.judge = [](const FrameHeader& header, bool) {
    return header.type == MessageType::Bye ? Fate::Lose : Fate::Pass;
  };
  bed_.tick_ns = 100'000;
  talk.end();
  EXPECT_TRUE(bed_.empties());
  EXPECT_TRUE(log_.warned("", 0));
}

}  // namespace
}  // namespace mesh

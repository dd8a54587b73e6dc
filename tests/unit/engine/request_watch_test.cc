// The log line about a request that stays open, for every reason, on a manual clock.
#include "engine/request_watch.h"

#include "engine/data/path.h"
#include "src/base/log.h"
#include "tests/prelude.h"
#include "tests/unit/engine/watched.h"

namespace mesh {
namespace {

using testkit::kA, testkit::kB, testkit::kS, testkit::Talk, testkit::kBar, testkit::Watched;

// A path on which nothing completes is lost after ten seconds.
constexpr int kBeforeTheLoss = 5;

TransferPolicy small_policy() {
  TransferPolicy policy;
  policy.qps = 1;
  policy.sq_depth = 64;
  policy.rq_depth = 16;
  policy.wr_bytes = 64 << 10;
  policy.inflight_bytes = 64 << 20;
  return policy;
}

TEST(RequestWatch, SendWithoutAReceiveWaitsForThePeer) {
  Watched watched;
  const auto sending = watched.talk.send({.bytes = 1000});
  watched.seconds(kBar);
  watched.expect_said(LogLevel::Info, "is open for", 0);
  watched.seconds(2);
  watched.expect_said(LogLevel::Info,
                      "peer b: send 0 of channel 0 (1000 bytes) is open for 30 s and waits for the "
                      "peer: it has posted no receive for it",
                      1);
  watched.seconds(27);
  watched.expect_said(LogLevel::Info, "is open for", 1);
  watched.seconds(3);
  watched.expect_said(LogLevel::Warn,
                      "is open for 60 s and waits for the peer: it has posted no receive", 1);
  EXPECT_TRUE(watched.bed.finish(*watched.talk.receive({.bytes = 1000})).ok());
  EXPECT_TRUE(watched.bed.finish(*sending).ok());
  watched.seconds(2);
  watched.expect_said(LogLevel::Warn, "peer b: sending to it goes on after 6", 1);
  watched.seconds(100);
  EXPECT_EQ(watched.log.all().size(), 3u) << watched.log.joined();
}

TEST(RequestWatch, ReceiveWithoutASendWaitsForData) {
  Watched watched;
  const auto receiving = watched.talk.receive({.bytes = 1000});
  watched.seconds(kBar + 2);
  watched.expect_said(LogLevel::Info,
                      "peer a: receive 0 of channel 0 (1000 bytes) is open for 30 s and waits for "
                      "the peer: it has sent nothing",
                      1);
  EXPECT_TRUE(watched.bed.finish(*watched.talk.send({.bytes = 1000})).ok());
  EXPECT_TRUE(watched.bed.finish(*receiving).ok());
  watched.seconds(2);
  watched.expect_said(LogLevel::Info, "peer a: receiving from it goes on after", 1);
}

TEST(RequestWatch, SendWhoseTagIsNotNextSaysSo) {
  Watched watched;
  watched.post_receive({.bytes = 8, .tag = 2});
  watched.post_send({.bytes = 8, .tag = 1});
  watched.seconds(kBar + 2);
  watched.expect_said(LogLevel::Info, "waits for the peer: its next receive has another tag", 1);
}

// Requests of the first tag come and go, so the oldest request of that tag is never old.
TEST(RequestWatch, SendOfAnotherTagIsNamedWhileTheFirstTagsMove) {
  Watched watched;
  const auto exchange = [&](Request* sending) {
    EXPECT_TRUE(watched.bed.finish(*watched.talk.receive({.bytes = 8, .tag = 1})).ok());
    EXPECT_TRUE(watched.bed.finish(sending).ok());
  };
  exchange(*watched.talk.send({.bytes = 8, .tag = 1}));
  watched.post_send({.bytes = 72, .tag = 9});
  for (int i = 0; i < kBar + 2; ++i) {
    Request* const sending = *watched.talk.send({.bytes = 8, .tag = 1});
    watched.seconds(1);
    exchange(sending);
  }
  watched.expect_said(LogLevel::Info,
                      "peer b: send 0 of tag 9 of channel 0 (72 bytes) is open for 30 s and waits "
                      "for the peer: it has posted no receive for it",
                      1);
}

// The first send of the first tag was refused, so another tag sent the first message.
TEST(RequestWatch, SendOfTheFirstTagIsNamedThoughAnotherTagWasFirstToSend) {
  Watched watched;
  std::array<char, 8> outside{};
  EXPECT_EQ(isend(*watched.talk.pair.send, {.data = outside.data(),
                                            .bytes = outside.size(),
                                            .tag = 1,
                                            .region = watched.talk.source_region})
                .code(),
            Errc::InvalidArgument);
  Request* const of_nine = *watched.talk.send({.bytes = 8, .tag = 9});
  watched.seconds(3);
  EXPECT_TRUE(watched.bed.finish(*watched.talk.receive({.bytes = 8, .tag = 9})).ok());
  EXPECT_TRUE(watched.bed.finish(of_nine).ok());
  watched.post_send({.bytes = 72, .tag = 1});
  watched.seconds(kBar + 3);
  watched.expect_said(LogLevel::Info, "send 0 of channel 0 (72 bytes) is open for 30 s", 1);
}

TEST(RequestWatch, LoopThatNobodyTurnsIsTheProgramsMatter) {
  Watched watched;
  watched.post_receive({.bytes = 8});
  watched.bed.rounds(10);
  watched.bed.hosts[0].loops_stand = watched.bed.hosts[1].loops_stand = true;
  watched.post_send({.bytes = 0});  // LatencyWatch polls where bytes were sent
  watched.seconds(kBar + 2);
  watched.expect_said(
      LogLevel::Info,
      "peer b: send 0 of channel 0 (0 bytes) is open for 30 s and waits for the program", 1);
  watched.expect_said(
      LogLevel::Info,
      "peer a: receive 0 of channel 0 (8 bytes) is open for 30 s and waits for the program", 1);
}

TEST(RequestWatch, PostedSendWaitsForTheNetworkAndNamesThePath) {
  Watched watched({}, kBeforeTheLoss);
  watched.post_receive({.bytes = 8});
  watched.bed.rounds(100);
  watched.stop_nic_of_peer();
  watched.post_send({.bytes = 8});
  watched.seconds(kBeforeTheLoss + 2);
  watched.expect_said(
      LogLevel::Warn,
      "waits for the network: it is posted on n0:1 10.0.1.1 -> n0:1 10.0.1.2 and not acknowledged",
      1);
}

TEST(RequestWatch, FullSendQueueIsNamed) {
  Watched watched(small_policy(), kBeforeTheLoss);
  watched.post_receive({.bytes = 16 << 20});
  watched.bed.rounds(100);
  watched.stop_nic_of_peer();
  watched.post_send({.bytes = 16 << 20});
  watched.bed.rounds(200);  // a round posts one work request
  watched.seconds(kBeforeTheLoss + 2);
  watched.expect_said(LogLevel::Warn, "waits for room in a send queue on n0:1", 1);
}

TEST(RequestWatch, BytesInFlightAreNamed) {
  TransferPolicy policy = small_policy();
  policy.inflight_bytes = policy.wr_bytes;
  Watched watched(policy, kBeforeTheLoss);
  watched.post_receive({.bytes = 1 << 20});
  watched.bed.rounds(100);
  watched.stop_nic_of_peer();
  watched.post_send({.bytes = 1 << 20});
  watched.seconds(kBeforeTheLoss + 2);
  watched.expect_said(LogLevel::Warn, "waits for the network: the bytes in flight on n0:1", 1);
}

TEST(RequestWatch, PeerThatTakesNoAnnouncementsIsNamed) {
  Watched watched(small_policy());
  for (int i = 0; i < 32; ++i) watched.post_receive({.bytes = 8});
  watched.bed.rounds(100);
  watched.bed.hosts[1].loops_stand = true;
  for (int i = 0; i < 32; ++i) watched.post_send({.bytes = 8});
  watched.bed.rounds(100);
  watched.seconds(kBar + 2);
  watched.expect_said(LogLevel::Warn,
                      "peer b: send 16 of channel 0 (8 bytes) is open for 30 s and waits for the "
                      "peer: it has not taken",
                      1);
}

TEST(RequestWatch, LinkWithoutAPathThatIsUpSaysSo) {
  Watched watched;
  watched.post_send({.bytes = 8});
  engine::PathState& state = watched.talk.pair.send->link.paths()[0].health.state;
  const engine::PathState before = std::exchange(state, engine::PathState::Quarantined);
  watched.seconds(kBar + 2);
  state = before;
  watched.expect_said(LogLevel::Warn, "waits for a path: none is up", 1);
}

TEST(RequestWatch, ALineThatWouldBeLongNamesThePortsAlone) {
  engine::Path path;
  path.name = "n0:1 10.0.1.1 -> n0:1 10.0.1.2";
  path.over = "c";
  const engine::Waiting waiting{.reason = WaitReason::Queue, .path = &path};
  const std::string whole = "room in a send queue on n0:1 10.0.1.1 -> n0:1 10.0.1.2 over host c";
  const std::size_t room = kLogLineBytesMax - whole.size();
  EXPECT_EQ(engine::waiting_text(waiting, room), whole);
  EXPECT_EQ(engine::waiting_text(waiting, room + 1),
            "room in a send queue on n0:1 -> n0:1 over host c");
}

// A stripe of several work requests is announced by the last one: before, nothing tells of it.
TEST(RequestWatch, AMessageOfLongStripesMayBeUnderWay) {
  Watched watched(small_policy());
  watched.post_receive({.bytes = small_policy().wr_bytes + 1});
  watched.seconds(kBar + 2);
  watched.expect_said(LogLevel::Info,
                      "it has sent nothing for it, or its first stripe is under way", 1);
}

TEST(RequestWatch, StripesThatHaveComeAreCounted) {
  EXPECT_EQ(engine::waiting_text({.reason = WaitReason::Data, .landed = 2}),
            "the peer: 2 stripes of it have come, not all");
}

// The times and the number of the log lines about an open request, on a manual clock.

TEST(RequestWatchTimes, ChannelsOfOneLinkShareALine) {
  Watched watched;
  Talk second(watched.bed, kA, kB, 4096), third(watched.bed, kA, kB, 4096);
  watched.post_send({.bytes = 8});
  watched.seconds(1);
  EXPECT_TRUE(second.send({.bytes = 8}).ok() && third.send({.bytes = 8}).ok());
  watched.seconds(kBar + 2);
  watched.expect_said(LogLevel::Info, "send 0 of channel 0 (8 bytes) is open for 30 s", 1);
  watched.expect_said(LogLevel::Info, "is open for", 1);
  watched.seconds(kBar);
  watched.expect_said(LogLevel::Warn, "send 0 of channel 0", 1);
  watched.expect_said(LogLevel::Warn, "; 3 channels wait", 1);
}

TEST(RequestWatchTimes, TrafficThatMovesIsNeverSaid) {
  Watched watched;
  for (int i = 0; i < 100; ++i) {
    watched.talk.exchange(1000);
    watched.seconds(1);
  }
  EXPECT_TRUE(watched.log.all().empty()) << watched.log.joined();
}

TEST(RequestWatchTimes, ProcessThatStoodStillItselfSaysNothingAtOnce) {
  Watched watched;
  watched.post_send({.bytes = 8});
  watched.seconds(2);
  watched.bed.advance_ns(3600 * kS);
  watched.bed.round();
  watched.expect_said(LogLevel::Info, "is open for", 0);
  watched.expect_said(LogLevel::Warn, "is open for", 0);
}

TEST(RequestWatchTimes, ZeroSecondsMeansNever) {
  Watched watched({}, 0);
  watched.post_send({.bytes = 8});
  watched.seconds(300);
  EXPECT_TRUE(watched.log.all().empty()) << watched.log.joined();
}

}  // namespace
}  // namespace mesh

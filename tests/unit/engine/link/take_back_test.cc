// After deregister_memory returns, nothing can touch the memory, whatever the peer does or fails to
// do.

#include "engine/data/channel.h"
#include "engine/data/peer_link.h"
#include "tests/prelude.h"
#include "tests/unit/base/log_capture.h"
#include "tests/unit/engine/bed.h"
#include "tests/unit/engine/units.h"

namespace mesh {
namespace {

using testkit::Bed, testkit::kMs, testkit::LogCapture, testkit::Talk;

using testkit::kA, testkit::kB;
constexpr std::byte kCanary{0xcc};

class TakeBack : public testing::Test {
 protected:
  void delay_writes(std::uint64_t by_ns) {
    bed_.hosts[0].fault({.kind = soft::FaultKind::WriteDelay, .delay_ns = by_ns});
  }
  // Takes the receiver's memory back and watches it for as long as a fault may delay a write.
  void take_back_and_watch(Talk& talk) {
    deregister_memory(*talk.pair.receive, talk.target_region);
    std::fill(talk.target.begin(), talk.target.end(), kCanary);
    bed_.tick_ns = 5 * kMs;
    bed_.rounds(1500);
    EXPECT_TRUE(std::all_of(talk.target.begin(), talk.target.end(),
                            [](std::byte byte) { return byte == kCanary; }));
  }
  Bed bed_{{.fabric = testkit::kHalves, .contexts = 2}};
};

TEST_F(TakeBack, IdleMemoryCostsNoWord) {
  Talk talk(bed_, kA, kB, 1 << 20);
  talk.exchange(1 << 20);
  bed_.hosts[0].control_stands = true;
  const std::uint64_t began_ns = bed_.now_ns();
  take_back_and_watch(talk);
  EXPECT_EQ(bed_.stats(1).revokes, 0u);
  EXPECT_LE(bed_.now_ns() - began_ns, 1501 * 5 * kMs) << "it did not wait";
}

TEST_F(TakeBack, CreditThatWasNotUsedIsRevoked) {
  Talk talk(bed_, kA, kB, 1 << 20), other(bed_, kA, kB, 4096);
  const auto receiving = talk.receive({.bytes = 1 << 20});
  bed_.rounds(100);
  deregister_memory(*talk.pair.receive, talk.target_region);
  EXPECT_EQ(bed_.stats(1).revokes, 1u);
  EXPECT_EQ(test(**receiving, nullptr).code(), Errc::Revoked);
  EXPECT_EQ(talk.send({.bytes = 8}).code(), Errc::PeerClosed) << "the sender was told";
  other.exchange(4096);
}

TEST_F(TakeBack, WriteUnderWayIsWaitedFor) {
  Talk talk(bed_, kA, kB, 4 << 20), other(bed_, kA, kB, 4096),
      elsewhere(bed_, {0, 1}, {1, 1}, 4096);
  delay_writes(100 * kMs);
  bed_.tick_ns = 100'000;
  const auto receiving = talk.receive({.bytes = 4 << 20});
  const auto sending = talk.send({.bytes = 4 << 20});
  bed_.rounds(20);
  const LogCapture log;
  take_back_and_watch(talk);
  EXPECT_TRUE(log.warned("", 0));
  EXPECT_NE(test(**receiving, nullptr).code(), Errc::WouldBlock);
  EXPECT_NE(test(**sending, nullptr).code(), Errc::WouldBlock);
  bed_.hosts[0].provider->faults().disarm_all();
  other.exchange(4096);
  elsewhere.exchange(4096);
}

TEST_F(TakeBack, WriteLaterThanTheBoundIsFenced) {
  Talk talk(bed_, kA, kB, 4 << 20), elsewhere(bed_, {0, 1}, {1, 1}, 4096);
  delay_writes(5000 * kMs);
  bed_.tick_ns = kMs;
  const auto receiving = talk.receive({.bytes = 4 << 20});
  ASSERT_TRUE(talk.send({.bytes = 4 << 20}).ok());
  bed_.rounds(20);
  const LogCapture log;
  take_back_and_watch(talk);
  EXPECT_TRUE(log.warned("peer a: no answer within 500 ms"));
  EXPECT_EQ(test(**receiving, nullptr).code(), Errc::Revoked);
  bed_.hosts[0].provider->faults().disarm_all();
  elsewhere.exchange(4096);
}

TEST_F(TakeBack, PeerThatNeverAnswersIsFencedAfterHalfASecond) {
  Talk talk(bed_, kA, kB, 1 << 20), elsewhere(bed_, {0, 1}, {1, 1}, 4096);
  const auto receiving = talk.receive({.bytes = 1 << 20});
  bed_.rounds(100);
  bed_.hosts[0].control_stands = bed_.hosts[0].loops_stand = true;
  bed_.tick_ns = kMs;
  const LogCapture log;
  const std::uint64_t began_ns = bed_.now_ns();
  deregister_memory(*talk.pair.receive, talk.target_region);
  const std::uint64_t took_ns = bed_.now_ns() - began_ns;
  EXPECT_GE(took_ns, 500 * kMs);
  EXPECT_LE(took_ns, 502 * kMs);
  EXPECT_TRUE(log.warned("peer a: no answer within 500 ms"));
  EXPECT_EQ(test(**receiving, nullptr).code(), Errc::Revoked);
  // The peer wakes up with a send for its credit, whose data must not reach the memory.
  std::fill(talk.target.begin(), talk.target.end(), kCanary);
  const auto sending = talk.send({.bytes = 1 << 20});
  bed_.hosts[0].control_stands = bed_.hosts[0].loops_stand = false;
  if (sending.ok()) {
    EXPECT_FALSE(bed_.finish(*sending).ok());
  }
  EXPECT_TRUE(std::all_of(talk.target.begin(), talk.target.end(),
                          [](std::byte byte) { return byte == kCanary; }));
  elsewhere.exchange(4096);
}

TEST_F(TakeBack, SecondTimeOnAFencedLinkDoesNotWait) {
  Talk one(bed_, kA, kB, 4096), two(bed_, kA, kB, 8192);
  ASSERT_TRUE(one.receive({.bytes = 4096}).ok() && two.receive({.bytes = 8192}).ok());
  bed_.rounds(100);
  bed_.hosts[0].control_stands = bed_.hosts[0].loops_stand = true;
  bed_.tick_ns = kMs;
  deregister_memory(*one.pair.receive, one.target_region);
  const std::uint64_t began_ns = bed_.now_ns();
  deregister_memory(*two.pair.receive, two.target_region);
  EXPECT_LE(bed_.now_ns() - began_ns, 2 * kMs);
}

TEST_F(TakeBack, SendUnderWayIsWaitedFor) {
  Talk talk(bed_, kA, kB, 1 << 20);
  delay_writes(100 * kMs);
  bed_.tick_ns = 100'000;
  const auto receiving = talk.receive({.bytes = 1 << 20});
  const auto sending = talk.send({.bytes = 1 << 20});
  const auto unposted = talk.send({.bytes = 7});
  bed_.rounds(20);
  const LogCapture log;
  const std::uint64_t began_ns = bed_.now_ns();
  deregister_memory(*talk.pair.send, talk.source_region);
  EXPECT_GE(bed_.now_ns() - began_ns, 50 * kMs) << "the NIC still read from it";
  EXPECT_LE(bed_.now_ns() - began_ns, 150 * kMs);
  EXPECT_NE(test(**sending, nullptr).code(), Errc::WouldBlock);
  EXPECT_EQ(test(**unposted, nullptr).code(), Errc::Revoked);
  const std::vector<std::byte> before = talk.source;
  std::fill(talk.source.begin(), talk.source.end(),
            kCanary);  // ours again: the receiver must not see this
  bed_.rounds(2000);
  if (test(**receiving, nullptr).ok()) {
    EXPECT_TRUE(std::equal(before.begin(), before.end(), talk.target.begin()));
  }
  EXPECT_TRUE(log.warned("", 0));
}

TEST_F(TakeBack, SendToANicThatNeverAnswersIsFenced) {
  Talk talk(bed_, kA, kB, 1 << 20);
  ASSERT_TRUE(talk.receive({.bytes = 1 << 20}).ok());
  bed_.rounds(100);
  bed_.hosts[1].nics_stand = bed_.hosts[1].loops_stand = bed_.hosts[1].control_stands = true;
  const auto sending = talk.send({.bytes = 1 << 20});
  bed_.tick_ns = kMs;
  const LogCapture log;
  const std::uint64_t began_ns = bed_.now_ns();
  deregister_memory(*talk.pair.send, talk.source_region);
  EXPECT_GE(bed_.now_ns() - began_ns, 500 * kMs);
  EXPECT_LE(bed_.now_ns() - began_ns, 502 * kMs);
  EXPECT_TRUE(log.warned("peer b: no answer within 500 ms"));
  EXPECT_EQ(test(**sending, nullptr).code(), Errc::Revoked);
}

// A card that completes nothing is left before the link would be cut, whichever end takes memory
// back: the link's other channels go on over the other card.
TEST_F(TakeBack, ACardThatHangsCostsItsPathAndNotTheLink) {
  for (const bool sender : {true, false}) {
    SCOPED_TRACE(sender);
    Talk talk(bed_, kA, kB, 1 << 20), other(bed_, kA, kB, 1 << 20);
    other.exchange(1 << 20);
    soft::FaultPlan& faults = bed_.hosts[0].provider->faults();
    ASSERT_TRUE(faults.arm({.kind = soft::FaultKind::Mute, .nic = "n1"}).ok());
    ASSERT_TRUE(talk.receive({.bytes = 1 << 20}).ok());
    bed_.rounds(20);
    ASSERT_TRUE(talk.send({.bytes = 1 << 20}).ok());
    bed_.rounds(20);
    bed_.tick_ns = kMs;
    const LogCapture log;
    const std::uint64_t began_ns = bed_.now_ns();
    if (sender) deregister_memory(*talk.pair.send, talk.source_region);
    if (!sender) deregister_memory(*talk.pair.receive, talk.target_region);
    EXPECT_LT(bed_.now_ns() - began_ns, 400 * kMs);
    EXPECT_GE(log.count(LogLevel::Warn, "stopped while memory is taken back"), 1) << log.joined();
    EXPECT_TRUE(log.warned("no answer within", 0));
    other.exchange(1 << 20);
    faults.disarm_all();
    ASSERT_TRUE(bed_.until([&] { return other.pair.send->link.paths().all_up(); }));
  }
}

TEST_F(TakeBack, SameRangeTwiceOnOneChannelGoesWithTheLast) {
  Talk talk(bed_, kA, kB, 4096);
  Registration* const again = *register_memory(*talk.pair.receive, talk.target.data(),
                                               talk.target.size(), MemoryType::Host);
  EXPECT_EQ(again, talk.target_region);
  const auto receiving = talk.receive({.bytes = 4096});
  bed_.rounds(100);
  deregister_memory(*talk.pair.receive, again);
  EXPECT_EQ(bed_.stats(1).revokes, 0u);
  const auto sending = talk.send({.bytes = 4096});
  EXPECT_TRUE(bed_.finish_all({*sending, *receiving}));
  take_back_and_watch(talk);
}

TEST_F(TakeBack, ASecondDeregistrationDuringTheWaitIsIgnored) {
  Talk talk(bed_, kA, kB, 4096), other(bed_, kA, kB, 4096);
  ASSERT_TRUE(talk.receive({.bytes = 4096}).ok());
  bed_.rounds(100);
  const LogCapture log;
  bed_.meanwhile = [&] { deregister_memory(*talk.pair.receive, talk.target_region); };
  deregister_memory(*talk.pair.receive, talk.target_region);
  EXPECT_EQ(bed_.meanwhile, nullptr) << "the call has waited";
  EXPECT_EQ(log.count(LogLevel::Warn, "was not registered through channel"), 1) << log.joined();
  other.exchange(4096);
}

// An abort takes back one region after the other, and waits only for the first silent peer.
TEST_F(TakeBack, OtherLinksOfASilentCommunicatorGetNoSecondWait) {
  Talk one(bed_, kA, kB, 4096), other(bed_, {0, 1}, kB, 8192);
  ASSERT_TRUE(one.receive({.bytes = 4096}).ok() && other.receive({.bytes = 8192}).ok());
  bed_.rounds(100);
  bed_.hosts[0].control_stands = bed_.hosts[0].loops_stand = true;
  bed_.tick_ns = kMs;
  const std::uint64_t began_ns = bed_.now_ns();
  deregister_memory(*one.pair.receive, one.target_region);
  deregister_memory(*other.pair.receive, other.target_region);
  EXPECT_LE(bed_.now_ns() - began_ns, 505 * kMs);
}

// The receiver closes while its credit is out. Posted writes go on reading the sender's memory for
// a while.
TEST_F(TakeBack, SendOverALinkWhoseReceiverClosedIsStillWaitedFor) {
  Talk talk(bed_, kA, kB, 48 << 20), other(bed_, kA, kB, 4096);
  delay_writes(100 * kMs);
  bed_.tick_ns = 100'000;
  const auto receiving = talk.receive({.bytes = 48 << 20});
  const auto sending = talk.send({.bytes = 48 << 20});
  ASSERT_TRUE(receiving.ok() && sending.ok());
  bed_.rounds(20);
  close(talk.pair.receive);
  bed_.rounds(20);
  EXPECT_EQ(test(**sending, nullptr).code(), Errc::PeerClosed);
  EXPECT_EQ(talk.send({.bytes = 8}).code(), Errc::PeerClosed) << "nothing new is taken";
  const LogCapture log;
  deregister_memory(*talk.pair.send, talk.source_region);
  close(talk.pair.send);
  bed_.hosts[0].provider->faults().disarm_all();
  bed_.rounds(5000);
  other.exchange(4096);
  EXPECT_TRUE(log.warned("", 0));
}

TEST_F(TakeBack, BothSidesAtOnce) {
  Talk talk(bed_, kA, kB, 4 << 20), other(bed_, kA, kB, 4096);
  for (std::size_t i = 0; i < 4; ++i) {
    ASSERT_TRUE(talk.receive({.at = i << 20, .bytes = 1 << 20}).ok());
    ASSERT_TRUE(talk.send({.at = i << 20, .bytes = 1 << 20}).ok());
  }
  bed_.data_round();
  const LogCapture log;
  talk.end();
  EXPECT_TRUE(log.warned("", 0));
  other.exchange(4096);
}

}  // namespace
}  // namespace mesh

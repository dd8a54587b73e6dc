// A message that a lost path took with it, and that nobody replays because its channel has ended.
// CLOSE does not count it: it is subtracted once, wherever its parts lay. The operators' figures
// counted it when it was posted, and never subtract it.

#include <mesh/snapshot.h>

#include "engine/data/peer_link.h"
#include "engine/data/progress_loop.h"
#include "tests/prelude.h"
#include "tests/unit/engine/bed.h"
#include "tests/unit/engine/data/lose_path.h"
#include "tests/unit/engine/units.h"

namespace mesh {
namespace {

using testkit::Bed, testkit::kKiB, testkit::kMs, testkit::lose_path, testkit::Talk;

using testkit::kA, testkit::kB;

std::uint64_t announced(const Channel& sender) {
  return static_cast<const engine::SendChannel&>(sender).announced();
}

// Posts a message that stays under way for as long as any test takes.
void post(Bed& bed, Talk& talk, std::size_t bytes) {
  testkit::delay_writes(bed.hosts[0], "", 4'000 * kMs);
  const auto sending = talk.send({.bytes = bytes});
  ASSERT_TRUE(sending.ok());
  EXPECT_EQ(test(**sending, nullptr).code(),
            Errc::WouldBlock);  // a tested request waits for no batch
  for (int i = 0; i < 20; ++i) bed.data_round();
}

// Loses a path and turns until both sides have stopped it and exchanged their counts.
void settle_path(Bed& bed, Channel& sender, std::uint32_t index) {
  lose_path(sender, index);
  ASSERT_TRUE(bed.until(
      [&] { return sender.link.paths()[index].health.state == engine::PathState::Down; }));
}

TransferPolicy two_work_requests_a_stripe() {
  TransferPolicy policy;
  policy.qps = 2;
  policy.stripe_bytes = 96 * kKiB;
  policy.wr_bytes = 64 * kKiB;
  policy.inflight_bytes = 160 * kKiB;
  return policy;
}

TEST(GivenUp, MessageThatWasHalfPostedIsCountedOutOnce) {
  Bed bed({.policy = two_work_requests_a_stripe()});
  Talk talk(bed, kA, kB, 192 * kKiB);
  const auto receiving = talk.receive({.bytes = 192 * kKiB});
  bed.rounds(100);
  ASSERT_NO_FATAL_FAILURE(
      post(bed, talk, 192 * kKiB));    // a whole stripe, and one work request of another
  bed.hosts[1].control_stands = true;  // delays its FENCE until after the close
  lose_path(*talk.pair.send, 0);
  close(talk.pair.send);
  bed.rounds(10);
  EXPECT_EQ(announced(*talk.pair.send), 0u);
  bed.hosts[1].control_stands = false;
  bed.tick_ns = 100'000;
  const std::uint64_t began_ns = bed.now_ns();
  EXPECT_EQ(bed.finish(*receiving).code(), Errc::PeerClosed);
  EXPECT_LE(bed.now_ns() - began_ns, 100 * kMs)
      << "the receiver waited for messages that CLOSE should not have counted";
  EXPECT_EQ(announced(*talk.pair.send), 0u);
}

TEST(GivenUp, EarlierMessagesStayCounted) {
  Bed bed({.policy = two_work_requests_a_stripe()});
  Talk talk(bed, kA, kB, 192 * kKiB);
  for (int i = 0; i < 3; ++i) talk.exchange(100);
  ASSERT_TRUE(talk.receive({.bytes = 192 * kKiB}).ok());
  bed.rounds(100);
  ASSERT_NO_FATAL_FAILURE(post(bed, talk, 192 * kKiB));
  close(talk.pair.send);
  ASSERT_NO_FATAL_FAILURE(settle_path(bed, *talk.pair.send, 0));
  EXPECT_EQ(announced(*talk.pair.send), 3u);
  EXPECT_EQ(bed.stats(0).messages_sent, 3u);
}

TEST(GivenUp, StripesThatAreLostOneAfterTheOtherCountOnce) {
  TransferPolicy policy;
  policy.qps = 1;
  policy.stripe_bytes = policy.wr_bytes = 64 * kKiB;
  Bed bed({.fabric = testkit::kThreeCables, .policy = policy});
  Talk talk(bed, kA, kB, 192 * kKiB);
  ASSERT_TRUE(talk.receive({.bytes = 192 * kKiB}).ok());
  bed.rounds(100);
  testkit::delay_writes(bed.hosts[0], "n0", 4'000 * kMs);
  testkit::delay_writes(bed.hosts[0], "n1", 5 * kMs);
  testkit::delay_writes(bed.hosts[0], "n2", 4'000 * kMs);
  ASSERT_TRUE(talk.send({.bytes = 192 * kKiB}).ok());  // a stripe on each path
  bed.rounds(20);
  close(talk.pair.send);
  ASSERT_EQ(announced(*talk.pair.send), 1u);
  ASSERT_NO_FATAL_FAILURE(settle_path(bed, *talk.pair.send, 0));
  EXPECT_EQ(announced(*talk.pair.send), 0u);
  ASSERT_TRUE(bed.until([&] { return talk.pair.send->link.paths()[1].inflight_bytes() == 0; }));
  ASSERT_NE(talk.pair.send->link.paths()[2].inflight_bytes(), 0u);
  ASSERT_NO_FATAL_FAILURE(settle_path(bed, *talk.pair.send, 2));
  EXPECT_EQ(announced(*talk.pair.send), 0u);
}

TEST(GivenUp, MessageUnderWayWithAStripeToBeSentAgainCountsOnce) {
  TransferPolicy policy;
  policy.qps = 1;
  policy.stripe_bytes = 128 * kKiB;
  policy.wr_bytes = 32 * kKiB;
  policy.inflight_bytes = 64 * kKiB;
  Bed bed({.fabric = testkit::kHalves, .policy = policy});
  Talk talk(bed, kA, kB, 256 * kKiB);
  talk.exchange(100);
  ASSERT_TRUE(talk.receive({.bytes = 256 * kKiB}).ok());
  bed.rounds(100);
  ASSERT_NO_FATAL_FAILURE(post(bed, talk, 256 * kKiB));  // half of a stripe on each path
  ASSERT_NO_FATAL_FAILURE(settle_path(bed, *talk.pair.send, 0));
  close(talk.pair.send);
  EXPECT_EQ(announced(*talk.pair.send), 1u);
  EXPECT_EQ(bed.stats(0).messages_sent, 1u);
}

TEST(GivenUp, WhatWasPostedStaysCountedForOperators) {
  Bed bed({});
  Talk talk(bed, kA, kB, 192 * kKiB);
  talk.exchange(100);
  ASSERT_TRUE(talk.receive({.bytes = 192 * kKiB}).ok());
  const auto last = talk.receive({.bytes = 192 * kKiB});
  EXPECT_EQ(test(**last, nullptr).code(), Errc::WouldBlock);  // as in post()
  bed.rounds(100);
  ASSERT_NO_FATAL_FAILURE(post(bed, talk, 192 * kKiB));  // a uniform message
  ASSERT_NO_FATAL_FAILURE(post(bed, talk, 100));
  const auto sent = [&] {
    const EngineSnapshot shot = bed.hosts[0].engine->snapshot();
    return std::vector<std::uint64_t>{shot.stats.messages_sent, shot.peers.at(0).messages};
  };
  const std::vector<std::uint64_t> before = sent();
  EXPECT_EQ(before, (std::vector<std::uint64_t>{3, 3}));
  close(talk.pair.send);
  ASSERT_NO_FATAL_FAILURE(settle_path(bed, *talk.pair.send, 0));
  EXPECT_EQ(announced(*talk.pair.send), 1u) << "CLOSE does not count what was lost";
  EXPECT_EQ(sent(), before) << "a counter does";
  close(talk.pair.receive);
  EXPECT_TRUE(bed.until([&] { return bed.stats(0).links == 0; }));
  EXPECT_EQ(sent(), before);
}

}  // namespace
}  // namespace mesh

// Sends of several tags: no tag waits for another one.

#include "engine/data/tag_queues.h"
#include "tests/prelude.h"
#include "tests/unit/engine/data/groups.h"
#include "tests/unit/engine/data/lose_path.h"

namespace mesh {
namespace {

using testkit::Bed, testkit::kA, testkit::kB, testkit::kStep, testkit::send, testkit::Talk;

TEST(Tags, SendsWithoutAReceiveAreEightOfATagAndLeaveRoomForOthers) {
  Bed bed({});
  Talk talk(bed, kA, kB, kStep);
  std::vector<Request*> open;
  const auto fill = [&](std::uint32_t tag, std::size_t most) {
    for (std::size_t i = 0; i < most; ++i) {
      const Result<Request*> sending = send(talk, 0, 8, tag);
      ASSERT_TRUE(sending.ok()) << "tag " << tag << ", send " << i;
      open.push_back(*sending);
    }
    EXPECT_EQ(send(talk, 0, 8, tag).code(), Errc::WouldBlock) << "tag " << tag;
  };
  fill(0, 32);  // the first tag has the slots of the channel
  for (std::uint32_t tag = 1; tag < 20; ++tag) fill(tag, 8);
  ASSERT_FALSE(HasFailure());
  // The first credit has the tag that was sent last.
  for (std::uint32_t tag = 20; tag-- > 0;) {
    for (int i = 0; i < 8; ++i)
      ASSERT_TRUE(bed.finish(*talk.receive({.bytes = 8, .tag = tag})).ok()) << "tag " << tag;
  }
  for (int i = 8; i < 32; ++i) ASSERT_TRUE(bed.finish(*talk.receive({.bytes = 8})).ok());
  for (Request* request : open) EXPECT_TRUE(bed.finish(request).ok());
  talk.exchange(8);
}

TEST(Tags, MoreThanHaveAQueueTakeTurns) {
  Bed bed({});
  Talk talk(bed, kA, kB, kStep);
  std::deque<Request*> open;
  const std::uint32_t most = engine::kTagsMax;
  for (std::uint32_t tag = 0; tag <= most; ++tag) open.push_back(*send(talk, 0, 8, tag));
  EXPECT_EQ(send(talk, 0, 8, most + 1).code(), Errc::WouldBlock);
  ASSERT_TRUE(bed.finish(*talk.receive({.bytes = 8, .tag = 5})).ok());
  ASSERT_TRUE(bed.finish(open[5]).ok());
  open.erase(open.begin() + 5);
  open.push_back(*send(talk, 0, 8, most + 1));
  ASSERT_TRUE(bed.finish(*talk.receive({.bytes = 8, .tag = most + 1})).ok());
  for (std::uint32_t tag = 0; tag <= most; ++tag) {
    if (tag == 5) continue;
    ASSERT_TRUE(bed.finish(*talk.receive({.bytes = 8, .tag = tag})).ok()) << tag;
  }
  for (Request* request : open) EXPECT_TRUE(bed.finish(request).ok());
}

TEST(Tags, ThirtyTwoSendsOfOneTagBeforeTheFirstCreditOfAnother) {
  Bed bed({});
  Talk talk(bed, kA, kB, kStep);
  std::deque<Request*> ahead;
  for (int i = 0; i < 32; ++i) ahead.push_back(*send(talk, 0, 8, 1));
  Request* const receiving = *talk.receive({.bytes = 8, .tag = 2});
  bed.rounds(1000);
  Request* const other = *send(talk, 0, 8, 2);
  EXPECT_TRUE(bed.finish_all({other, receiving}));
  for (Request* request : ahead) {
    ASSERT_TRUE(bed.finish(*talk.receive({.bytes = 8, .tag = 1})).ok());
    ASSERT_TRUE(bed.finish(request).ok());
  }
}

// The test holds the progress lock, as a poller would, so that its release finds both sends.
TEST(Tags, SendsOfTwoTagsOfWhichTheLoopHearsAtOnceAreBothSeen) {
  Bed bed({});
  Talk talk(bed, kA, kB, kStep);
  talk.exchange(8);
  std::vector<Request*> open{*talk.receive({.bytes = 8}), *talk.receive({.bytes = 8, .tag = 1})};
  bed.rounds(1000);
  {
    const engine::ProgressLoop::Guard guard(talk.pair.send->loop);
    open.push_back(*send(talk, 0, 8, 0));
    open.push_back(*send(talk, 0, 8, 1));
  }
  for (Request* request : open) EXPECT_TRUE(bed.finish(request).ok());
}

TEST(Tags, ASendThatWaitsForItsCreditOutlivesTheLossOfAPath) {
  Bed bed({.fabric = testkit::kThreeCables});
  Talk talk(bed, kA, kB, kStep);
  talk.exchange(8);
  Request* const waiting = *send(talk, 0, 8, 1);
  bed.rounds(100);
  testkit::lose_path(*talk.pair.send, 0);
  bed.rounds(1000);
  Request* const receiving = *talk.receive({.bytes = 8, .tag = 1});
  EXPECT_TRUE(bed.finish_all({receiving, waiting}));
}

}  // namespace
}  // namespace mesh

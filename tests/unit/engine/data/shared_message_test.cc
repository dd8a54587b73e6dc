// Messages over paths that are alike. Each path carries an equal part and counts it for itself, and
// a lost path loses its part like any other data.

#include "engine/data/peer_link.h"
#include "tests/unit/engine/bed.h"
#include "tests/unit/engine/data/lose_path.h"
#include "tests/unit/engine/units.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace mesh {
namespace {

using testkit::Bed;
using testkit::delay_writes;
using testkit::kKiB, testkit::kMs;
using testkit::lose_path;
using testkit::Talk;

using testkit::kA, testkit::kB;
constexpr std::size_t kRoom = 4096 * kKiB;

TransferPolicy two_queue_pairs() {
  TransferPolicy policy;
  policy.qps = 2;
  return policy;
}

class SharedMessageTest : public testing::Test {
 protected:
  SharedMessageTest()
      : bed_({.fabric = testkit::kHalves, .policy = two_queue_pairs()}),
        talk_(bed_, kA, kB, kRoom) {}

  const engine::Path& path(std::uint32_t index) const {
    return talk_.pair.send->link.paths()[index];
  }
  std::uint64_t bytes_over(std::uint32_t index) const { return path(index).counters().bytes_sent; }
  // Posts a message that is under way on return. Its receive is still to be finished.
  Request* begin(std::size_t bytes) {
    receiving_ = *talk_.receive({.bytes = bytes});
    bed_.rounds(100);
    for (const char* const nic : {"n0", "n1"}) delay_writes(bed_.hosts[0], nic, 50 * kMs);
    Request* const sending = *talk_.send({.bytes = bytes});
    EXPECT_EQ(test(*sending, nullptr).code(), Errc::WouldBlock);
    for (int i = 0; i < 20; ++i) bed_.data_round();
    return sending;
  }
  void expect_whole(Request* sending, std::size_t bytes) {
    bed_.tick_ns = kMs;
    EXPECT_TRUE(bed_.finish(sending).ok());
    EXPECT_TRUE(bed_.finish(receiving_).ok());
    EXPECT_TRUE(talk_.holds(0, 0, bytes));
    for (const std::uint32_t index : {0u, 1u}) EXPECT_EQ(path(index).inflight_bytes(), 0u);
    EXPECT_EQ(talk_.pair.send->outstanding, 0u);
  }

  Bed bed_;
  Talk talk_;
  Request* receiving_ = nullptr;
};

TEST_F(SharedMessageTest, EachPathCarriesTheSamePart) {
  Request* const sending = begin(1024 * kKiB);
  EXPECT_EQ(sending->cut.stripe_bytes, 256 * kKiB) << "one of four stripes";
  for (const std::uint32_t index : {0u, 1u}) {
    EXPECT_EQ(bytes_over(index), 512 * kKiB);
    EXPECT_EQ(path(index).inflight_bytes(), 512 * kKiB);
  }
  expect_whole(sending, 1024 * kKiB);
}

TEST_F(SharedMessageTest, TheLastStripeMayHaveLess) {
  constexpr std::size_t kOdd = 1'000'003;
  Request* const sending = begin(kOdd);
  EXPECT_EQ(sending->cut.stripe_bytes, 250'112u);
  EXPECT_EQ(bytes_over(0), 500'224u);
  EXPECT_EQ(bytes_over(1), kOdd - 500'224u);
  expect_whole(sending, kOdd);
}

TEST_F(SharedMessageTest, MessagesOfOneStripeTakeTurns) {
  for (int i = 0; i < 8; ++i) talk_.exchange(64 * kKiB);
  for (const std::uint32_t index : {0u, 1u}) EXPECT_EQ(bytes_over(index), 4 * 64 * kKiB);
}

TEST_F(SharedMessageTest, WhatALostPathCarriedGoesOverTheOther) {
  for (const std::size_t bytes : {std::size_t{1024 * kKiB}, std::size_t{1'000'003}}) {
    Request* const sending = begin(bytes);
    lose_path(*talk_.pair.send, 1);
    expect_whole(sending, bytes);
    EXPECT_EQ(path(1).health.replayed_stripes % 2, 0u) << "two stripes of each message";
    ASSERT_TRUE(bed_.until([&] { return path(1).health.state == engine::PathState::Up; }));
  }
  EXPECT_EQ(path(1).health.replayed_stripes, 4u);
}

TEST_F(SharedMessageTest, WhatFollowsALossIsCutForThePathThatIsLeft) {
  talk_.exchange(1024 * kKiB);
  lose_path(*talk_.pair.send, 0);
  const std::uint64_t before = bytes_over(1);
  Request* const sending = begin(1024 * kKiB);
  EXPECT_EQ(sending->cut.stripe_bytes, 512 * kKiB) << "one of two stripes";
  EXPECT_EQ(bytes_over(1) - before, 1024 * kKiB);
  expect_whole(sending, 1024 * kKiB);
}

}  // namespace
}  // namespace mesh

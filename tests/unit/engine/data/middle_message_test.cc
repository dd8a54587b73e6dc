// Small messages above near_bytes: one alone takes the express queue pair, further ones take idle
// bulk queue pairs, none goes behind stripes, and a lost path loses and doubles none. Messages of
// one stripe go in halves while the path has little in flight.

#include "engine/data/peer_link.h"
#include "tests/unit/engine/bed.h"
#include "tests/unit/engine/data/lose_path.h"
#include "tests/unit/engine/units.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace mesh {
namespace {

using testkit::Bed;
using testkit::delay_writes;
using testkit::kKiB;
using testkit::lose_path;
using testkit::Talk;

using testkit::kA, testkit::kB;
constexpr std::size_t kMiddleRoom = 1024 * kKiB;
constexpr std::size_t kMiddle = 4 * kKiB;
constexpr std::uint64_t kMiddleDelay = 4'000'000'000;  // longer than any test takes

class MiddleMessageTest : public testing::Test {
 protected:
  explicit MiddleMessageTest(const char* fabric = nullptr)
      : bed_(fabric == nullptr ? testkit::BedOptions{} : testkit::BedOptions{.fabric = fabric}),
        talk_(bed_, kA, kB, kMiddleRoom) {}

  engine::Path& path() { return talk_.pair.send->link.paths()[0]; }
  // Returns the messages and stripes that each queue pair of the first path has under way.
  std::vector<std::uint64_t> under_way() {
    std::vector<std::uint64_t> found;
    for (const auto& queue_pair : path().queue_pairs) found.push_back(queue_pair->outstanding());
    return found;
  }
  void give_receives(std::size_t count, std::size_t bytes) {
    for (std::size_t i = 0; i < count; ++i)
      open_.push_back(*talk_.receive({.at = received_bytes_, .bytes = bytes})),
          received_bytes_ += bytes;
    EXPECT_EQ(test(*open_.back(), nullptr).code(), Errc::WouldBlock);
    bed_.rounds(100);
  }
  void send(std::size_t count, std::size_t bytes) {
    for (std::size_t i = 0; i < count; ++i) {
      open_.push_back(*talk_.send({.at = sent_bytes_, .bytes = bytes}));
      sent_bytes_ += bytes;
      EXPECT_EQ(test(*open_.back(), nullptr).code(), Errc::WouldBlock);  // it is posted now
    }
  }
  void expect_whole() {
    bed_.hosts[0].provider->faults().disarm_all();
    for (Request* const request : open_) EXPECT_TRUE(bed_.finish(request).ok());
    EXPECT_TRUE(talk_.holds(0, 0, sent_bytes_));
    EXPECT_EQ(talk_.pair.send->outstanding, 0u);
    EXPECT_EQ(path().inflight_bytes(), 0u);
  }

  Bed bed_;
  Talk talk_;
  std::vector<Request*> open_;
  std::size_t sent_bytes_ = 0, received_bytes_ = 0;
};

using Counts = std::vector<std::uint64_t>;

TEST_F(MiddleMessageTest, WhatIsBeyondOneUnderWayTakesTheQueuePairsInTurn) {
  give_receives(8, kMiddle);
  delay_writes(bed_.hosts[0], "", testkit::kMs);
  send(1, kMiddle);
  EXPECT_EQ(under_way(), (Counts{1, 0, 0, 0, 0})) << "one alone";
  send(7, kMiddle);
  EXPECT_EQ(under_way(), (Counts{2, 2, 2, 1, 1}));
  EXPECT_EQ(path().inflight_bytes(), 0u) << "only stripes are bulk bytes";
  expect_whole();
}

TEST_F(MiddleMessageTest, AMessageUpToNearBytesKeepsToTheExpressQueuePair) {
  give_receives(8, TransferPolicy{}.near_bytes);
  delay_writes(bed_.hosts[0], "", testkit::kMs);
  send(8, TransferPolicy{}.near_bytes);
  EXPECT_EQ(under_way(), (Counts{8, 0, 0, 0, 0}));
  expect_whole();
}

TEST_F(MiddleMessageTest, NoneGoesBehindStripes) {
  give_receives(1, 64 * kKiB);
  give_receives(8, kMiddle);
  delay_writes(bed_.hosts[0], "", testkit::kMs);
  send(1, 64 * kKiB);
  send(8, kMiddle);
  EXPECT_EQ(under_way(), (Counts{8, 1, 1, 0, 0}));
  expect_whole();
}

TEST_F(MiddleMessageTest, OneStripeAloneGoesInHalvesAndTheNextOneWhole) {
  give_receives(2, 64 * kKiB);
  delay_writes(bed_.hosts[0], "", testkit::kMs);
  send(1, 64 * kKiB);
  EXPECT_EQ(under_way(), (Counts{0, 1, 1, 0, 0}));
  send(1, 64 * kKiB);
  EXPECT_EQ(under_way(), (Counts{0, 1, 1, 1, 0})) << "the path has enough in flight";
  expect_whole();
}

TEST_F(MiddleMessageTest, SeveralPostedTogetherAreSharedOutToo) {
  give_receives(8, kMiddle);
  delay_writes(bed_.hosts[0], "", testkit::kMs);
  bed_.hosts[0].loops_stand = true;
  for (int i = 0; i < 8; ++i) {
    open_.push_back(*talk_.send({.at = sent_bytes_, .bytes = kMiddle}));
    sent_bytes_ += kMiddle;
  }
  bed_.hosts[0].loops_stand = false;
  EXPECT_EQ(test(*open_.back(), nullptr).code(), Errc::WouldBlock);
  EXPECT_EQ(under_way(), (Counts{2, 2, 2, 1, 1}));
  expect_whole();
}

// On each of the five queue pairs some messages have landed and others have not.
TEST_F(MiddleMessageTest, ALostPathLosesAndDoublesNone) {
  give_receives(16, kMiddle);
  send(8, kMiddle);
  bed_.rounds(3);
  delay_writes(bed_.hosts[0], "", kMiddleDelay);
  send(8, kMiddle);
  lose_path(*talk_.pair.send, 0);
  expect_whole();
  EXPECT_GE(path().health.replayed_stripes, 6u);
}

class MiddleMessageOverPathsTest : public MiddleMessageTest {
 protected:
  MiddleMessageOverPathsTest() : MiddleMessageTest(testkit::kThreeCables) {}
};

TEST_F(MiddleMessageOverPathsTest, StaysOnThePathOfItsExpressQueuePair) {
  give_receives(8, kMiddle);
  delay_writes(bed_.hosts[0], "", testkit::kMs);
  send(8, kMiddle);
  EXPECT_EQ(under_way(), (Counts{2, 2, 2, 1, 1}));
  expect_whole();
}

}  // namespace
}  // namespace mesh

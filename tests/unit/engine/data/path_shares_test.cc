#include "engine/data/path_shares.h"

#include "engine/data/path.h"
#include "engine/data/queue_pair.h"
#include "tests/unit/engine/bed.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>

namespace mesh::engine {
namespace {

constexpr std::uint64_t kMiB = 1u << 20;

class PathSharesTest : public testing::Test {
 protected:
  PathSharesTest() {
    for (Path& path : paths_) {
      path.speed_mbps = 100'000;
      path.inflight_bytes_max = 8 * kMiB;
    }
    assign();
  }
  void assign() { shares_.assign({paths_.data(), &paths_[1]}, policy_.qps); }
  // Carries `messages` messages, of which each path does `bytes[path]` with 1 MiB in flight on it.
  void carry(int messages, const std::array<std::uint64_t, 2>& bytes) {
    for (int i = 0; i < messages; ++i) {
      for (std::size_t path = 0; path < paths_.size(); ++path) {
        paths_[path].bulk_done += bytes[path];
        paths_[path].bulk_posted = paths_[path].bulk_done + kMiB;
      }
      alike_ = shares_.alike(kMiB);
      if (!alike_) shares_.spread(kMiB);
    }
  }

  TransferPolicy policy_;
  PathShares shares_{policy_};
  std::array<Path, 2> paths_;
  bool alike_ = false;
};

TEST_F(PathSharesTest, PathsOfOneSpeedAreAlike) {
  EXPECT_TRUE(shares_.alike(kMiB));
  carry(100, {kMiB / 2, kMiB / 2});
  EXPECT_TRUE(alike_);
}

TEST_F(PathSharesTest, PathsWhosePortsDifferAreNot) {
  paths_[1].speed_mbps = 89'000;
  assign();
  EXPECT_FALSE(shares_.alike(kMiB));
  paths_[1].speed_mbps = 91'000;
  assign();
  EXPECT_TRUE(shares_.alike(kMiB));
}

TEST_F(PathSharesTest, APathThatKeepsMoreInFlightByMoreThanTheMessageIsNot) {
  paths_[1].bulk_posted = kMiB;
  EXPECT_TRUE(shares_.alike(kMiB));
  EXPECT_FALSE(shares_.alike(kMiB - 1));
}

TEST_F(PathSharesTest, NothingIsSharedWithoutRoomOnEveryPath) {
  for (Path& path : paths_) path.bulk_posted = 7 * kMiB;
  EXPECT_TRUE(shares_.alike(kMiB));
  EXPECT_FALSE(shares_.alike(kMiB + 1));
}

TEST_F(PathSharesTest, NothingPassesAChannelThatWaitsForAPath) {
  testkit::Bed bed({});
  const testkit::Talk talk(bed, testkit::kA, testkit::kB, 8);
  paths_[1].byte_waiter = talk.pair.send;
  EXPECT_FALSE(shares_.alike(kMiB));
}

TEST_F(PathSharesTest, SpeedsThatWereLearnedCount) {
  carry(200, {kMiB, kMiB / 2});
  EXPECT_FALSE(alike_) << "half as fast as its port says";
  carry(200, {kMiB, kMiB});
  EXPECT_TRUE(alike_) << "it has recovered";
}

}  // namespace
}  // namespace mesh::engine

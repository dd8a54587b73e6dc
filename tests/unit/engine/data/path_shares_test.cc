#include "engine/data/path_shares.h"

#include "engine/data/path.h"
#include "engine/data/queue_pair.h"
#include "tests/prelude.h"
#include "tests/unit/engine/bed.h"

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

// Two paths of a link. Each look finds another `done_each` bytes done on them.
class Paths {
 public:
  Paths(std::uint32_t first_mbps, std::uint32_t second_mbps) {
    speeds_.configure(std::array<std::uint32_t, 2>{first_mbps, second_mbps});
  }
  void looks(int count, const std::array<std::uint64_t, 2>& done_each,
             const std::array<std::uint64_t, 2>& in_flight) {
    for (int look = 0; look < count; ++look) {
      for (std::size_t i = 0; i < 2; ++i)
        progress_[i] = {progress_[i].done_bytes + done_each[i], in_flight[i]};
      speeds_.observe(progress_);
    }
  }
  double ratio() const { return static_cast<double>(speeds_.mbps(1)) / speeds_.mbps(0); }
  const PathSpeeds& speeds() const { return speeds_; }

 private:
  PathSpeeds speeds_;
  std::array<PathProgress, 2> progress_{};
};

TEST(PathSpeeds, PortsAreBelievedAtFirst) {
  const Paths paths(100'000, 25'000);
  EXPECT_EQ(paths.speeds().mbps(0), 100'000u);
  EXPECT_EQ(paths.speeds().mbps(1), 25'000u);
}

TEST(PathSpeeds, BusyPathsShowTheirRatio) {
  Paths paths(100'000, 100'000);
  paths.looks(400, {kMiB, kMiB / 8}, {kMiB, kMiB});
  EXPECT_NEAR(paths.ratio(), 0.125, 0.005);
  EXPECT_EQ(paths.speeds().mbps(0), 100'000u) << "the best is believed its port's word";
}

TEST(PathSpeeds, APathThatRecoversIsBelievedAgain) {
  Paths paths(100'000, 100'000);
  paths.looks(400, {kMiB, kMiB / 8}, {kMiB, kMiB});
  paths.looks(400, {kMiB, kMiB}, {kMiB, kMiB});
  EXPECT_NEAR(paths.ratio(), 1, 0.02);
}

// With an even split and one slow path, the fast path is done early and idle at each look.
TEST(PathSpeeds, IdleBesideABusyOneMeansFaster) {
  Paths paths(100'000, 100'000);
  paths.looks(100, {kMiB, kMiB}, {0, kMiB});
  EXPECT_LT(paths.ratio(), 0.8);
}

TEST(PathSpeeds, IdleWithoutWorkMeansNothing) {
  Paths paths(100'000, 50'000);
  paths.looks(100, {kMiB, 0}, {kMiB, 0});
  EXPECT_NEAR(paths.ratio(), 0.5, 0.01);
}

TEST(PathSpeeds, OneMessageAtATimeLeavesThePortsWords) {
  Paths paths(100'000, 100'000);
  paths.looks(400, {kMiB, kMiB / 8}, {kMiB, kMiB});
  paths.looks(400, {kMiB, kMiB}, {0, 0});
  EXPECT_NEAR(paths.ratio(), 1, 0.02);
}

TEST(PathSpeeds, NoPathIsGivenUp) {
  Paths paths(100'000, 100'000);
  paths.looks(1000, {kMiB, 0}, {kMiB, kMiB});
  EXPECT_GE(paths.speeds().mbps(1), 100'000u / 256);
}

}  // namespace
}  // namespace mesh::engine

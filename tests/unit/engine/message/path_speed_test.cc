#include "engine/data/path_shares.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>

namespace mesh::engine {
namespace {

constexpr std::uint64_t kMegabyte = 1u << 20;

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
  paths.looks(400, {kMegabyte, kMegabyte / 8}, {kMegabyte, kMegabyte});
  EXPECT_NEAR(paths.ratio(), 0.125, 0.005);
  EXPECT_EQ(paths.speeds().mbps(0), 100'000u) << "the best is believed its port's word";
}

TEST(PathSpeeds, APathThatRecoversIsBelievedAgain) {
  Paths paths(100'000, 100'000);
  paths.looks(400, {kMegabyte, kMegabyte / 8}, {kMegabyte, kMegabyte});
  paths.looks(400, {kMegabyte, kMegabyte}, {kMegabyte, kMegabyte});
  EXPECT_NEAR(paths.ratio(), 1, 0.02);
}

// With an even split and one slow path, the fast path is done early and idle at each look.
TEST(PathSpeeds, IdleBesideABusyOneMeansFaster) {
  Paths paths(100'000, 100'000);
  paths.looks(100, {kMegabyte, kMegabyte}, {0, kMegabyte});
  EXPECT_LT(paths.ratio(), 0.8);
}

TEST(PathSpeeds, IdleWithoutWorkMeansNothing) {
  Paths paths(100'000, 50'000);
  paths.looks(100, {kMegabyte, 0}, {kMegabyte, 0});
  EXPECT_NEAR(paths.ratio(), 0.5, 0.01);
}

TEST(PathSpeeds, OneMessageAtATimeLeavesThePortsWords) {
  Paths paths(100'000, 100'000);
  paths.looks(400, {kMegabyte, kMegabyte / 8}, {kMegabyte, kMegabyte});
  paths.looks(400, {kMegabyte, kMegabyte}, {0, 0});
  EXPECT_NEAR(paths.ratio(), 1, 0.02);
}

TEST(PathSpeeds, NoPathIsGivenUp) {
  Paths paths(100'000, 100'000);
  paths.looks(1000, {kMegabyte, 0}, {kMegabyte, kMegabyte});
  EXPECT_GE(paths.speeds().mbps(1), 100'000u / 256);
}

}  // namespace
}  // namespace mesh::engine

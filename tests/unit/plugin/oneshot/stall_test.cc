#include "plugin/oneshot/stall.h"

#include "tests/prelude.h"

namespace mesh::oneshot {
namespace {

constexpr std::uint64_t kBarNs = 10 * kNsPerSecond;

class Stall : public testing::Test {
 protected:
  StallWatch::Say look(std::uint64_t mark) { return watch_.look(mark); }
  void wait(std::uint64_t ns) { now_ns_ += ns; }

  std::atomic<std::uint64_t> now_ns_{1};
  StallWatch watch_{{.bar_ns = kBarNs, .clock = Clock(&now_ns_)}};
};

TEST_F(Stall, IsToldOnceAndSoIsItsEnd) {
  EXPECT_EQ(look(7), StallWatch::Say::Nothing);
  wait(kBarNs - 1);
  EXPECT_EQ(look(7), StallWatch::Say::Nothing);
  wait(1);
  EXPECT_EQ(look(7), StallWatch::Say::Waits);
  EXPECT_EQ(watch_.age_ns(), kBarNs);
  wait(kBarNs);
  EXPECT_EQ(look(7), StallWatch::Say::Nothing);
  EXPECT_EQ(look(8), StallWatch::Say::GoesOn);
  EXPECT_EQ(watch_.age_ns(), 2 * kBarNs);
  wait(kBarNs);
  EXPECT_EQ(look(8), StallWatch::Say::Waits);
}

TEST_F(Stall, JobsThatComeFurtherAreNone) {
  for (std::uint64_t mark = 0; mark < 10; ++mark) {
    EXPECT_EQ(look(mark), StallWatch::Say::Nothing);
    wait(kBarNs - 1);
  }
}

TEST_F(Stall, TimeWithoutAJobCountsForNothing) {
  EXPECT_EQ(look(7), StallWatch::Say::Nothing);
  wait(5 * kBarNs);
  watch_.restart();
  EXPECT_EQ(look(7), StallWatch::Say::Nothing);
  wait(kBarNs);
  EXPECT_EQ(look(7), StallWatch::Say::Waits);
}

TEST_F(Stall, OneOfManyTestsLooks) {
  std::uint32_t looks = 0;
  for (std::uint32_t i = 0; i < 3 * StallWatch::kTestsToLook; ++i) looks += watch_.due() ? 1 : 0;
  EXPECT_EQ(looks, 3u);
}

TEST_F(Stall, NoTestLooksWithoutABar) {
  StallWatch watch({.clock = Clock(&now_ns_)});
  for (std::uint32_t i = 0; i < 3 * StallWatch::kTestsToLook; ++i) EXPECT_FALSE(watch.due());
}

}  // namespace
}  // namespace mesh::oneshot

#include "perf/mesh_tune/sweep.h"

#include <gtest/gtest.h>

namespace mesh::tune {
namespace {

using Times = std::vector<double>;

TEST(Compare, MediansAndQuartiles) {
  EXPECT_EQ(median({3, 1, 2}), 2);
  EXPECT_EQ(median({4, 1, 2, 3}), 2.5);
  EXPECT_EQ(median({}), 0);
  EXPECT_EQ(quantile({5, 4, 3, 2, 1}, 0.25), 2);
  EXPECT_EQ(quantile({5, 4, 3, 2, 1}, 1), 5);
  EXPECT_EQ(quantile({}, 0.5), 0);
}

TEST(Compare, ARoundThatWasSlowForBothCountsAsAnyOther) {
  const Comparison half = compare(Times{5, 500, 5}, Times{10, 1000, 10});
  EXPECT_EQ(half.ratio, 0.5);
  EXPECT_EQ(half.low, 0.5);
  EXPECT_EQ(half.high, 0.5);
}

TEST(Compare, WithoutTimesNothingDiffers) {
  EXPECT_EQ(compare(Times{}, Times{1}).ratio, 1);
  EXPECT_EQ(compare(Times{1}, Times{0}).ratio, 1);
}

TEST(Compare, AGainBelowTheNoiseIsNone) {
  EXPECT_EQ(judge({.ratio = 0.97, .low = 0.96, .high = 0.98}, 0.02), Verdict::Better);
  EXPECT_EQ(judge({.ratio = 0.97, .low = 0.96, .high = 0.98}, 0.05), Verdict::Same);
  EXPECT_EQ(judge({.ratio = 1.03, .low = 1.02, .high = 1.04}, 0.02), Verdict::Worse);
  EXPECT_EQ(judge({.ratio = 1.03, .low = 1.02, .high = 1.04}, 0.05), Verdict::Same);
}

TEST(Compare, AGainOfSomeRoundsOnlyIsNone) {
  EXPECT_EQ(judge({.ratio = 0.9, .low = 0.8, .high = 1.01}, 0.02), Verdict::Same);
  EXPECT_EQ(judge({.ratio = 1.1, .low = 0.99, .high = 1.2}, 0.02), Verdict::Same);
}

}  // namespace
}  // namespace mesh::tune

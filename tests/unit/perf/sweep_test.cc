#include "perf/mesh_tune/sweep.h"

#include "src/base/config.h"
#include "tests/prelude.h"

namespace mesh::tune {
namespace {

using Rounds = std::vector<double>;

const Stage kStage{.knob = tuning::Knob::Qps,
                   .values = {1, 2, 4},
                   .points = {{65536, Figure::Stream}, {1 << 20, Figure::Stream}}};

// Makes a trial of two points. The rounds alternate by `wobble` around their middle.
Trial trial(std::optional<std::int64_t> value, double small, double large, double wobble = 0) {
  Trial made{.value = value, .times = {}};
  for (const double middle : {small, large}) {
    Rounds rounds;
    for (int i = 0; i < 9; ++i) rounds.push_back(middle * (1 + (i % 2 == 0 ? wobble : -wobble)));
    made.times.push_back(rounds);
  }
  return made;
}

TEST(Sweep, TheFastestThatIsWorseNowhereWins) {
  const std::vector<Trial> others{trial(1, 100, 90), trial(2, 100, 80), trial(8, 110, 50)};
  const Choice choice = choose(kStage, trial({}, 100, 100), trial({}, 100, 100), others);
  ASSERT_TRUE(choice.winner);
  EXPECT_EQ(choice.candidates[*choice.winner].value, 2)
      << "8 is far better at one size, but worse at the other";
  EXPECT_EQ(choice.why, "20.0 % faster at 1M 8 in flight (noise 2.0 %), slower nowhere");
}

TEST(Sweep, AGainBelowTheRunToRunSpreadIsNoGain) {
  const std::vector<Trial> others{trial(1, 100, 95)};
  EXPECT_TRUE(choose(kStage, trial({}, 100, 100), trial({}, 100, 100), others).winner)
      << "on a still machine 5 % is a gain";
  const Trial repeated = trial({}, 100, 100, 0.08);
  const Choice noisy = choose(kStage, trial({}, 100, 100), repeated, others);
  EXPECT_FALSE(noisy.winner) << "where the same setting measured again is 8 % off, it is not";
  EXPECT_EQ(noisy.why, "none is faster by more than the noise");
}

TEST(Sweep, NothingBelowTwoPercentCounts) {
  const std::vector<Trial> others{trial(1, 98.5, 98.5)};
  EXPECT_FALSE(choose(kStage, trial({}, 100, 100), trial({}, 100, 100), others).winner);
}

TEST(Sweep, AWinnerMustWinInMostRounds) {
  Trial lucky = trial(1, 100, 100);
  for (const std::size_t round : {0u, 1u, 2u}) lucky.times[1][round] = 10;
  const std::vector<Trial> others{lucky};
  EXPECT_FALSE(choose(kStage, trial({}, 100, 100), trial({}, 100, 100), others).winner);
}

TEST(Sweep, WhatIsTradedIsNotChosen) {
  const std::vector<Trial> others{trial(1, 50, 110)};
  const Choice choice = choose(kStage, trial({}, 100, 100), trial({}, 100, 100), others);
  EXPECT_FALSE(choice.winner);
  EXPECT_EQ(choice.why, "each that is faster somewhere is slower elsewhere");
}

TEST(Sweep, DriftThatHitsAllAlikeDecidesNothing) {
  Trial present = trial({}, 100, 100), repeated = present, other = trial(1, 100, 100);
  for (Trial* each : {&present, &repeated, &other}) {
    for (std::size_t round = 0; round < 9; ++round)
      each->times[0][round] *= 1 + static_cast<double>(round);
  }
  EXPECT_FALSE(choose(kStage, present, repeated, std::vector<Trial>{other}).winner);
}

TEST(Sweep, PlansStayWithinTheRangesAndOneRequestWithinTheWindow) {
  for (const Effort effort : {Effort::Quick, Effort::Full}) {
    const Plan plan = plan_sweep(effort);
    EXPECT_GE(plan.rounds, 5);
    std::int64_t longest = 524288, least = INT64_MAX;
    for (const Stage& stage : plan.stages) {
      EXPECT_FALSE(stage.points.empty());
      for (const std::int64_t value : stage.values) {
        Environment environment{{tuning::info(stage.knob).setting, std::to_string(value)}};
        environment.emplace("NCCL_MESH_WR_BYTES", "4096");  // leaves room for few bytes in flight
        EXPECT_TRUE(load_settings(environment).ok())
            << tuning::info(stage.knob).key << " " << value;
        if (stage.knob == tuning::Knob::WrBytes) longest = std::max(longest, value);
        if (stage.knob == tuning::Knob::InflightBytes) least = std::min(least, value);
      }
    }
    EXPECT_LE(longest, least);
  }
}

TEST(Compare, MediansAndQuartiles) {
  EXPECT_EQ(median({3, 1, 2}), 2);
  EXPECT_EQ(median({4, 1, 2, 3}), 2.5);
  EXPECT_EQ(median({}), 0);
  EXPECT_EQ(quantile({5, 4, 3, 2, 1}, 0.25), 2);
  EXPECT_EQ(quantile({5, 4, 3, 2, 1}, 1), 5);
  EXPECT_EQ(quantile({}, 0.5), 0);
}

TEST(Compare, ARoundThatWasSlowForBothCountsAsAnyOther) {
  const Comparison half = compare(Rounds{5, 500, 5}, Rounds{10, 1000, 10});
  EXPECT_EQ(half.ratio, 0.5);
  EXPECT_EQ(half.low, 0.5);
  EXPECT_EQ(half.high, 0.5);
}

TEST(Compare, WithoutTimesNothingDiffers) {
  EXPECT_EQ(compare(Rounds{}, Rounds{1}).ratio, 1);
  EXPECT_EQ(compare(Rounds{1}, Rounds{0}).ratio, 1);
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

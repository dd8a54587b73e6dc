// When a path whose completions have stopped is silent, and for how long it may be.

#include "engine/data/path_silence.h"

#include "tests/prelude.h"

namespace mesh::engine {
namespace {

constexpr std::uint64_t kLookNs = kNsPerSecond;

TEST(PathSilence, BeginsAtTheFirstLookThatFindsACompletionOwed) {
  PathSilence silence;
  silence.see({.owes = true, .completed = 7}, kLookNs);
  EXPECT_EQ(silence.silent_ns(), 0u);
  silence.see({.owes = true, .completed = 7}, kLookNs);
  EXPECT_EQ(silence.silent_ns(), kLookNs);
}

TEST(PathSilence, EndsWithACompletionAndWithTheDebt) {
  for (const PathLook& end :
       {PathLook{.owes = true, .completed = 8}, PathLook{.owes = false, .completed = 7}}) {
    PathSilence silence;
    for (int i = 0; i < 4; ++i) silence.see({.owes = true, .completed = 7}, kLookNs);
    silence.see(end, kLookNs);
    EXPECT_EQ(silence.silent_ns(), 0u);
    silence.see({.owes = true, .completed = end.completed}, kLookNs);
    EXPECT_EQ(silence.silent_ns(), end.owes ? kLookNs : 0u);
  }
}

TEST(PathSilence, APauseOfThisProcessCountsAsOneLook) {
  PathSilence silence;
  silence.see({.owes = true, .completed = 7}, kLookNs);
  silence.see({.owes = true, .completed = 7}, 600 * kNsPerSecond);
  EXPECT_EQ(silence.silent_ns(), kSilenceLookCountsMaxNs);
}

TEST(PathSilence, APathThatNeverCompletedAnythingHasNotMoved) {
  PathSilence silence;
  EXPECT_FALSE(silence.moved_within(kNsPerSecond));
  silence.see({.owes = false, .completed = 0}, kLookNs);
  EXPECT_FALSE(silence.moved_within(kNsPerSecond));
  silence.see({.owes = false, .completed = 1}, kLookNs);
  EXPECT_TRUE(silence.moved_within(1));
  silence.see({.owes = false, .completed = 1}, kLookNs);
  EXPECT_TRUE(silence.moved_within(kLookNs + 1));
  EXPECT_FALSE(silence.moved_within(kLookNs));
}

TEST(SilenceBound, FollowsTheTimersAndStaysBelowThePathTimeOut) {
  const std::uint64_t path_timeout_ns = 30 * kNsPerSecond;
  const auto bound_ns = [](int timer, int retries, Others others) {
    return silence_bound_ns(
        {.ack_ns = ack_bound_ns(timer, retries), .path_timeout_ns = path_timeout_ns}, others);
  };
  EXPECT_EQ(bound_ns(16, 6, Others::Move), kSilenceToLossNs) << "7 x 0.27 s are less";
  EXPECT_EQ(bound_ns(16, 6, Others::Silent), kSilenceOfAllToLossNs);
  EXPECT_EQ(bound_ns(18, 6, Others::Move), 7 * (kAckTimerUnitNs << 18)) << "7 x 1.07 s";
  EXPECT_EQ(bound_ns(20, 7, Others::Move), path_timeout_ns / 4 * 3) << "8 x 4.3 s are too long";
  EXPECT_EQ(bound_ns(0, 7, Others::Move), path_timeout_ns / 4 * 3) << "0: for ever";
  EXPECT_EQ(bound_ns(31, 7, Others::Silent), path_timeout_ns / 4 * 3);
}

// The software fabric's NICs are threads of their process.
TEST(SilenceBound, APeerWhoseDeviceStandsStillWithItIsWaitedFor) {
  const SilenceTerms terms{.path_timeout_ns = 30 * kNsPerSecond, .acknowledges_alone = false};
  EXPECT_EQ(silence_bound_ns(terms, Others::Silent), UINT64_MAX);
  EXPECT_EQ(silence_bound_ns(terms, Others::Move), kSilenceToLossNs)
      << "another path shows it runs";
}

TEST(SilenceBound, GrowsWithWhatIsUnderWayOnASlowPort) {
  const SilenceTerms terms{
      .ack_ns = 0, .carry_ns = 2 * kNsPerSecond, .path_timeout_ns = 30 * kNsPerSecond};
  EXPECT_EQ(silence_bound_ns(terms, Others::Move), kSilenceToLossNs + 4 * kNsPerSecond);
}

}  // namespace
}  // namespace mesh::engine

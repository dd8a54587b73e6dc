#include "engine/data/stall_watch.h"
#include "src/base/timeouts.h"
#include "tests/prelude.h"

namespace mesh::engine {
namespace {

constexpr std::uint64_t kS = 1'000'000'000;
constexpr std::uint64_t kBar = 30 * kS;
using Say = LinkWait::Say;

TEST(OldestRequest, BecomesLateOnceAfterTheSecondLook) {
  OldestRequest oldest;
  oldest.see({.sequence = 3, .open = true}, 100);
  EXPECT_FALSE(oldest.becomes_late(100)) << "it may have begun just now";
  oldest.see({.sequence = 3, .open = true}, 100 + kRequestLookToNextNs);
  EXPECT_TRUE(oldest.becomes_late(100 + kRequestLookToNextNs));
  EXPECT_FALSE(oldest.becomes_late(100 + 2 * kRequestLookToNextNs)) << "once";
  EXPECT_TRUE(oldest.becomes_late(100 + 2 * kRequestLookToNextNs, true)) << "while asked to";
  oldest.see({.sequence = 4, .open = true}, 100 + 2 * kRequestLookToNextNs);
  EXPECT_FALSE(oldest.becomes_late(100 + 2 * kRequestLookToNextNs));
  EXPECT_TRUE(oldest.becomes_late(100 + 3 * kRequestLookToNextNs)) << "another request";
}

TEST(OldestRequest, AgesOnlyWhileTheSameRequestIsOpen) {
  OldestRequest oldest;
  EXPECT_EQ(oldest.age_ns(5 * kS), 0u);
  oldest.see({.sequence = 7, .open = false}, 10 * kS);
  EXPECT_EQ(oldest.age_ns(20 * kS), 0u) << "nothing is open";
  oldest.see({.sequence = 7, .open = true}, 20 * kS);
  EXPECT_EQ(oldest.age_ns(20 * kS), 0u) << "it was not there at the look before";
  oldest.see({.sequence = 7, .open = true}, 25 * kS);
  EXPECT_EQ(oldest.age_ns(26 * kS), 6 * kS);
  oldest.see({.sequence = 8, .open = true}, 27 * kS);
  EXPECT_EQ(oldest.age_ns(27 * kS), 0u);
  EXPECT_EQ(oldest.sequence(), 8u);
}

// Looks once a second up to and including `until`. Returns the seconds at which something was said.
std::vector<std::uint64_t> said_at(LinkWait& wait, std::uint64_t until, bool patient) {
  std::vector<std::uint64_t> said;
  for (std::uint64_t second = 1; second <= until; ++second) {
    if (wait.look({.age_ns = second * kS, .patient = patient}, kBar) == Say::Waits)
      said.push_back(second);
  }
  return said;
}

TEST(LinkWait, IsSaidAtTheBarAndAtEveryDoubling) {
  LinkWait wait;
  EXPECT_EQ(said_at(wait, 500, false), (std::vector<std::uint64_t>{30, 60, 120, 240, 480}));
  EXPECT_EQ(wait.look({.age_ns = 1}, kBar), Say::GoesOn);
  EXPECT_EQ(wait.longest_ns(), 500 * kS);
  EXPECT_EQ(wait.look({.age_ns = 1}, kBar), Say::Nothing) << "once";
}

TEST(LinkWait, ShortOnesAreNeverSaid) {
  LinkWait wait;
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(wait.look({.age_ns = 29 * kS}, kBar), Say::Nothing);
    EXPECT_EQ(wait.look({.age_ns = 0}, kBar), Say::Nothing);
  }
}

TEST(LinkWait, LooksThatWereMissedAreNotMadeUpFor) {
  LinkWait wait;
  EXPECT_EQ(wait.look({.age_ns = 250 * kS}, kBar), Say::Waits);
  EXPECT_EQ(wait.look({.age_ns = 479 * kS}, kBar), Say::Nothing);
  EXPECT_EQ(wait.look({.age_ns = 480 * kS}, kBar), Say::Waits);
}

TEST(LinkWait, WaitForAProgramIsAWarningFromTwiceTheBarOn) {
  LinkWait wait;
  EXPECT_EQ(wait.look({.age_ns = 30 * kS, .patient = true}, kBar), Say::Waits);
  EXPECT_FALSE(wait.is_warning());
  EXPECT_EQ(wait.look({.age_ns = 60 * kS, .patient = true}, kBar), Say::Waits);
  EXPECT_TRUE(wait.is_warning());
}

TEST(LinkWait, WaitForTheNetworkIsAWarningAtOnce) {
  LinkWait wait;
  EXPECT_EQ(wait.look({.age_ns = 30 * kS, .patient = false}, kBar), Say::Waits);
  EXPECT_TRUE(wait.is_warning());
}

TEST(LinkWait, ProgramThatTakesItsTimeAgainIsNotSaidAgain) {
  LinkWait wait;
  EXPECT_EQ(said_at(wait, 100, true), (std::vector<std::uint64_t>{30, 60}));
  EXPECT_EQ(wait.look({}, kBar), Say::GoesOn);
  EXPECT_EQ(said_at(wait, 100, true), std::vector<std::uint64_t>{}) << "as long as the one before";
  EXPECT_EQ(wait.look({}, kBar), Say::Nothing) << "what was not said needs no end";
  EXPECT_EQ(said_at(wait, 120, true), std::vector<std::uint64_t>{120});
  EXPECT_EQ(wait.look({}, kBar), Say::GoesOn);
  EXPECT_EQ(said_at(wait, 30, false), std::vector<std::uint64_t>{30})
      << "the network has no such credit";
}

TEST(LinkWait, PatienceHasABound) {
  LinkWait wait;
  said_at(wait, 5000, true);
  EXPECT_EQ(wait.look({}, kBar), Say::GoesOn);
  EXPECT_EQ(said_at(wait, 300, true), std::vector<std::uint64_t>{LinkWait::kPatienceBars * 30});
}

}  // namespace
}  // namespace mesh::engine

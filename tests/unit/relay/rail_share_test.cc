// The order in which several chains may post over one rail.
#include "src/relay/chain_side.h"

#include "tests/prelude.h"

namespace mesh::relay {
namespace {

constexpr std::uint64_t kPart = 256u << 10;

// Several users of one rail that always have work, with the bytes that each has under way.
struct Ways {
  RailShare share;
  std::array<std::uint64_t, 3> under_way{}, posted{};

  // Lets user `i` post as much as it may. Returns the bytes posted.
  std::uint64_t turn(std::size_t i) {
    std::uint64_t went = 0;
    share.look(&under_way[i], under_way[i]);
    while (share.try_post(&under_way[i], under_way[i], kPart)) under_way[i] += kPart, went += kPart;
    posted[i] += went;
    return went;
  }
  std::size_t busy() const {
    std::size_t count = 0;
    for (const std::uint64_t bytes : under_way) count += bytes != 0 ? 1 : 0;
    return count;
  }
};

TEST(RailShare, OneAtATimeHasPayloadsUnderWayAndAllGetAsMuch) {
  Ways ways;
  for (int round = 0; round < 3000; ++round) {
    for (std::size_t i = 0; i < 3; ++i) {
      if (ways.under_way[i] != 0) ways.under_way[i] -= kPart;  // the NIC has completed one
      ways.turn(i);
      ASSERT_LE(ways.busy(), 1u) << "round " << round;
    }
  }
  for (const std::uint64_t bytes : ways.posted) {
    EXPECT_GE(bytes, ways.posted[0] - RailShare::kQuantumBytes);
    EXPECT_LE(bytes, ways.posted[0] + RailShare::kQuantumBytes);
    EXPECT_GE(bytes, 500 * kPart);
  }
}

TEST(RailShare, AloneItGoesOnWithoutAPause) {
  Ways ways;
  ways.turn(0);
  EXPECT_EQ(ways.under_way[0], RailShare::kUnderWayBytes);
  for (int round = 0; round < 100; ++round) {
    ways.under_way[0] -= kPart;
    EXPECT_EQ(ways.turn(0), kPart) << round;
  }
}

TEST(RailShare, WhoHasNothingMoreGivesItUpWhenItsPayloadsAreDone) {
  RailShare share;
  int first = 0, second = 0;
  ASSERT_TRUE(share.try_post(&first, 0, kPart));
  EXPECT_TRUE(share.rest(&first, kPart)) << "still under way";
  EXPECT_FALSE(share.try_post(&second, 0, kPart));
  EXPECT_FALSE(share.rest(&first, RailShare::kHandOverBytes));
  EXPECT_TRUE(share.try_post(&second, 0, kPart));
  EXPECT_FALSE(share.look(&first, 0));
}

TEST(RailShare, WhoLeavesHoldsUpNobody) {
  RailShare share;
  int first = 0, second = 0;
  ASSERT_TRUE(share.try_post(&first, 0, kPart));
  share.leave(&first);
  EXPECT_TRUE(share.try_post(&second, 0, kPart));
  share.leave(&first);
  EXPECT_TRUE(share.look(&second, kPart));
}

// A user that waits may leave as well.
TEST(RailShare, WhoGaveItUpForSomebodyGoneGetsItBack) {
  RailShare share;
  int first = 0, second = 0;
  for (std::uint64_t spent = 0; spent < RailShare::kQuantumBytes; spent += kPart)
    ASSERT_TRUE(share.try_post(&first, 0, kPart));
  EXPECT_FALSE(share.try_post(&second, 0, kPart));
  share.leave(&second);
  EXPECT_FALSE(share.look(&first, 0));
  EXPECT_FALSE(share.try_post(&first, 0, kPart)) << "the other's turn";
  EXPECT_TRUE(share.try_post(&first, 0, kPart));
}

TEST(RailShare, AHolderWhoseNicIsSilentLosesIt) {
  RailShare share;
  int first = 0, second = 0;
  ASSERT_TRUE(share.try_post(&first, 0, kPart));
  const auto asks = [&] {
    std::uint32_t refused = 0;
    while (!share.try_post(&second, 0, kPart)) ++refused;
    return refused;
  };
  for (std::uint32_t i = 0; i + 1 < RailShare::kPatience; ++i)
    ASSERT_FALSE(share.try_post(&second, 0, kPart));
  EXPECT_TRUE(share.look(&first, kPart - 1)) << "something was done";
  EXPECT_EQ(asks(), RailShare::kPatience - 1);
  EXPECT_FALSE(share.look(&first, 0));
}

// The user has lost the rail once, and all of its payloads are still under way.
TEST(RailShare, WhoCanPostNothingDoesNotTakeIt) {
  RailShare share;
  int silent = 0, other = 0;
  for (int round = 0; round < 3; ++round) {
    EXPECT_FALSE(share.try_post(&silent, RailShare::kUnderWayBytes, kPart)) << round;
    for (std::uint64_t spent = 0; spent < RailShare::kQuantumBytes; spent += kPart)
      ASSERT_TRUE(share.try_post(&other, 0, kPart)) << round;
    EXPECT_FALSE(share.try_post(&silent, RailShare::kUnderWayBytes, kPart)) << round;
    share.look(&other, 0);
  }
}

}  // namespace
}  // namespace mesh::relay

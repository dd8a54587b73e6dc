#include "plugin/oneshot/plan.h"

#include "plugin/oneshot/choice.h"
#include "tests/prelude.h"

namespace mesh::oneshot {
namespace {

using Cables = std::vector<std::pair<std::size_t, std::size_t>>;

Neighbours neighbours_of(const Cables& cables) {
  Neighbours neighbours{};
  for (const auto& [a, b] : cables) {
    neighbours[a] |= 1u << b;
    neighbours[b] |= 1u << a;
  }
  return neighbours;
}
Cables all_of(std::size_t members) {
  Cables cables;
  for (std::size_t a = 0; a < members; ++a) {
    for (std::size_t b = 0; b < a; ++b) cables.emplace_back(a, b);
  }
  return cables;
}
Cables ring_of(std::size_t members) {
  Cables cables;
  for (std::size_t a = 0; a < members; ++a) cables.emplace_back(a, (a + 1) % members);
  return cables;
}
// Place i of the cube is at rank (5 * i) % 8, so that places and ranks differ.
Cables cube() {
  Cables cables;
  for (std::size_t place = 0; place < 8; ++place) {
    for (const std::size_t bit : {1u, 2u, 4u}) {
      if ((place & bit) == 0) cables.emplace_back(5 * place % 8, 5 * (place | bit) % 8);
    }
  }
  return cables;
}

// Plays all members' steps and returns whose data each has in the end.
std::vector<std::vector<std::size_t>> played(std::size_t members, const Neighbours& neighbours) {
  std::vector<std::vector<PlanStep>> plans;
  for (std::size_t rank = 0; rank < members; ++rank)
    plans.push_back(steps_of(rank, members, neighbours));
  std::vector<std::vector<std::size_t>> have(members);
  for (std::size_t rank = 0; rank < members; ++rank) have[rank] = {rank};
  for (std::size_t index = 0; index < plans[0].size(); ++index) {
    std::vector<std::vector<std::size_t>> next(members);
    for (std::size_t rank = 0; rank < members; ++rank) {
      const auto& step = plans[rank][index].ranks;
      EXPECT_EQ(std::count(step.begin(), step.end(), rank), 1);
      for (const std::size_t from : step) {
        next[rank].insert(next[rank].end(), have[from].begin(), have[from].end());
        EXPECT_EQ(plans[from][index].ranks, step) << "the two do not mean one step";
      }
    }
    have = std::move(next);
  }
  return have;
}

void expect_all_have_all_in_one_order(std::size_t members, const Neighbours& neighbours) {
  const auto have = played(members, neighbours);
  for (std::size_t rank = 0; rank < members; ++rank) {
    EXPECT_EQ(have[rank], have[0]) << "rank " << rank;
    std::vector<std::size_t> sorted = have[rank];
    std::sort(sorted.begin(), sorted.end());
    for (std::size_t i = 0; i < members; ++i) EXPECT_EQ(sorted.at(i), i);
    EXPECT_EQ(sorted.size(), members) << "rank " << rank << " counts a member twice";
  }
}

TEST(Plan, NeighboursMeetInOneStepInTheOrderOfRanks) {
  for (const std::size_t members : {2u, 3u, 4u, 8u, 16u}) {
    const auto steps = steps_of(1, members, neighbours_of(all_of(members)));
    ASSERT_EQ(steps.size(), 1u);
    for (std::size_t i = 0; i < members; ++i) EXPECT_EQ(steps[0].ranks.at(i), i);
  }
}

TEST(Plan, ASquareTakesTwoStepsAlongItsCables) {
  const Neighbours square = neighbours_of(ring_of(4));
  for (std::size_t rank = 0; rank < 4; ++rank) {
    const auto steps = steps_of(rank, 4, square);
    ASSERT_EQ(steps.size(), 2u);
    for (const auto& [ranks, from] : steps) {
      ASSERT_EQ(ranks.size(), 2u);
      EXPECT_NE(square[ranks[0]] >> ranks[1] & 1u, 0u);
    }
    EXPECT_EQ(steps[0].from, rank);
    EXPECT_EQ(steps[1].from, (rank + 2) % 4) << "the ring of the member across";
  }
  expect_all_have_all_in_one_order(4, square);
  expect_all_have_all_in_one_order(4, neighbours_of({{0, 2}, {2, 1}, {1, 3}, {3, 0}}));
}

TEST(Plan, ACubeTakesThreeStepsAlongItsCables) {
  const Neighbours neighbours = neighbours_of(cube());
  for (std::size_t rank = 0; rank < 8; ++rank) {
    const auto steps = steps_of(rank, 8, neighbours);
    ASSERT_EQ(steps.size(), 3u);
    std::set<std::size_t> rings;
    for (const auto& [ranks, from] : steps) {
      EXPECT_NE(neighbours[ranks[0]] >> ranks[1] & 1u, 0u);
      rings.insert({ranks[0], ranks[1], from});
    }
    EXPECT_EQ(rings.size(), 6u)
        << "ourselves, three neighbours, and two rings for what lies between";
  }
  expect_all_have_all_in_one_order(8, neighbours);
}

// A ring of eight, a line and other numbers have no such places.
TEST(Plan, OtherCablesMeetInOneStep) {
  for (const auto& [members, cables] :
       {std::pair{std::size_t{8}, ring_of(8)}, std::pair{std::size_t{6}, ring_of(6)},
        std::pair{std::size_t{3}, Cables{{0, 1}, {1, 2}}},
        std::pair{std::size_t{4}, Cables{{0, 1}, {1, 2}, {2, 3}}}}) {
    EXPECT_EQ(steps_of(0, members, neighbours_of(cables)).size(), 1u);
    expect_all_have_all_in_one_order(members, neighbours_of(cables));
  }
}

// A cable counts if both ends say so.
TEST(Plan, ACableThatOneEndDoesNotKnowIsNone) {
  Neighbours square = neighbours_of(ring_of(4));
  square[2] &= ~(1u << 3);
  for (std::size_t rank = 0; rank < 4; ++rank) EXPECT_EQ(steps_of(rank, 4, square).size(), 1u);
}

constexpr std::size_t kKiB = 1024;

TEST(Choice, AChunkIsAsSmallAsTheMessage) {
  EXPECT_EQ(chunk_bytes(0, 1, 32 * kKiB), 512u);
  EXPECT_EQ(chunk_bytes(4, 1, 32 * kKiB), 512u);
  EXPECT_EQ(chunk_bytes(513, 1, 32 * kKiB), 1024u);
  EXPECT_EQ(chunk_bytes(10'000, 1, 32 * kKiB), 10'240u);
}

TEST(Choice, AMessageOfUpTo64KiBIsOneChunk) {
  EXPECT_EQ(chunk_bytes(48 * kKiB, 1, 32 * kKiB), 48 * kKiB);
  EXPECT_EQ(chunk_bytes(64 * kKiB, 1, 32 * kKiB), 64 * kKiB);
  EXPECT_EQ(chunk_bytes(64 * kKiB + 4, 1, 32 * kKiB), 32 * kKiB) << "NCCL's own";
}

TEST(Choice, EachChannelCarriesAPart) {
  EXPECT_EQ(chunk_bytes(100 * kKiB, 2, 32 * kKiB), 50 * kKiB);
  EXPECT_EQ(chunk_bytes(1, 4, 32 * kKiB), 512u);
}

// With a small NCCL_BUFFSIZE.
TEST(Choice, AChunkFitsIntoNcclsBuffers) {
  EXPECT_EQ(chunk_bytes(48 * kKiB, 1, 4 * kKiB), 4 * kKiB);
  EXPECT_EQ(chunk_bytes(700, 1, 4 * kKiB), 1024u);
}

TEST(Choice, TheLeastMessageIsOneForWhichAnExchangeIsFaster) {
  EXPECT_EQ(least_bytes({.hosts = 3, .cuts_chunks = true}), 4 * kKiB + 1);
  EXPECT_EQ(least_bytes({.hosts = 2, .cuts_chunks = true}), 8 * kKiB + 1);
  EXPECT_EQ(least_bytes({.hosts = 16, .cuts_chunks = false}), 16 * kKiB + 1);
}

TEST(Choice, ANegativeCostIsNone) {
  const std::array<float, 3> none{-1, -1, -1}, one{-1, 0, -1};
  EXPECT_FALSE(any_choice(none));
  EXPECT_TRUE(any_choice(one));
}

}  // namespace
}  // namespace mesh::oneshot

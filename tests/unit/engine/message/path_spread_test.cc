#include "engine/message/path_spread.h"

#include "tests/prelude.h"

namespace mesh::engine {
namespace {

const TransferPolicy kPolicy{};
constexpr std::uint64_t kMebibyte = 1u << 20;

StripeTable spread(std::uint64_t bytes, const TransferPolicy& policy,
                   std::span<const PathLoad> paths) {
  StripeTable table;
  spread_stripes(bytes, {.stripe_bytes = policy.stripe_bytes, .qps = policy.qps}, paths, table);
  return table;
}

std::vector<std::uint64_t> bytes_by_path(const StripeTable& table, std::size_t paths) {
  std::vector<std::uint64_t> sums(paths);
  for (std::uint32_t i = 0; i < table.count; ++i)
    sums[table.stripes[i].position % paths] += table.stripes[i].span.bytes;
  return sums;
}

// Checks that the stripes cover the message once, begin at whole 128-byte lines, and lie on queue
// pairs that exist.
void expect_covers(const StripeTable& table, std::uint64_t message, std::size_t queue_pairs) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> pieces;
  for (std::uint32_t i = 0; i < table.count; ++i) {
    const auto& [span, position] = table.stripes[i];
    pieces.emplace_back(span.offset, span.bytes);
    ASSERT_LT(position, queue_pairs);
  }
  std::sort(pieces.begin(), pieces.end());
  std::uint64_t at = 0;
  for (const auto& [offset, bytes] : pieces) {
    ASSERT_EQ(offset, at);
    ASSERT_EQ(offset % kStripeAlign, 0u);
    ASSERT_GT(bytes, 0u);
    at += bytes;
  }
  ASSERT_EQ(at, message);
}

// The speeds that parts are computed from are rounded, so the parts may add up to more than the
// whole.
TEST(PathSpread, RoundedSpeedsGiveAwayNoMoreThanThereIs) {
  constexpr std::uint64_t kMessage = 256 * kMebibyte;
  for (std::uint64_t in_flight = 1'000'000; in_flight < 1'100'000; in_flight += 128) {
    const std::array<PathLoad, 2> paths{
        {{.speed_mbps = 10'000}, {.bytes = in_flight, .speed_mbps = 40, .hosts_between = 1}}};
    expect_covers(spread(kMessage, kPolicy, paths), kMessage, kPolicy.qps * paths.size());
  }
}

TEST(PathSpread, AnyLoadsAreCovered) {
  std::mt19937 random(7);
  const auto up_to = [&random](std::uint64_t most) {
    return std::uniform_int_distribution<std::uint64_t>(0, most)(random);
  };
  for (int round = 0; round < 20'000; ++round) {
    std::array<PathLoad, 3> paths{};
    for (PathLoad& path : paths) {
      path.bytes = up_to(8 * kMebibyte);
      path.speed_mbps = 1 + static_cast<std::uint32_t>(up_to(100'000));
      path.hosts_between = static_cast<std::uint32_t>(up_to(3));
    }
    const std::uint64_t message = 1 + (up_to(std::uint64_t{1} << up_to(32)));
    expect_covers(spread(message, kPolicy, paths), message, kPolicy.qps * paths.size());
  }
}

TEST(PathSpread, PartsAreAsTheSpeeds) {
  const std::array<PathLoad, 3> paths{
      {{.speed_mbps = 100'000}, {.speed_mbps = 50'000}, {.speed_mbps = 25'000}}};
  const StripeTable table = spread(7 * kMebibyte, kPolicy, paths);
  const auto parts = bytes_by_path(table, 3);
  EXPECT_NEAR(static_cast<double>(parts[0]), 4.0 * kMebibyte, 1024);
  EXPECT_NEAR(static_cast<double>(parts[1]), 2.0 * kMebibyte, 1024);
  EXPECT_NEAR(static_cast<double>(parts[2]), 1.0 * kMebibyte, 1024);
  EXPECT_EQ(table.count, 12u) << "four queue pairs each";
}

// In a ring of three hosts each idle cable carries two parts, and a part is stored once. A single
// message is done soonest with a quarter of it over the third host; in a ring of four, with a
// fifth.
TEST(PathSpread, AMessageAloneGoesTheOtherWayRoundByALittle) {
  for (const std::uint32_t hosts : {1u, 2u}) {
    const std::array<PathLoad, 2> paths{
        {{.speed_mbps = 120'000}, {.speed_mbps = 120'000 / (hosts + 1), .hosts_between = hosts}}};
    const StripeTable table = spread(12 * kMebibyte, kPolicy, paths);
    const auto parts = bytes_by_path(table, 2);
    EXPECT_NEAR(static_cast<double>(parts[1]), 12.0 * kMebibyte / (hosts + 3), 2048);
    expect_covers(table, 12 * kMebibyte, 2 * kPolicy.qps);
  }
}

// Bytes in flight on a path have been stored already, so they count once.
TEST(PathSpread, OfManyInFlightTheOtherWayRoundGetsWhatItCarries) {
  PathLoad direct{.speed_mbps = 100'000};
  PathLoad round{.speed_mbps = 50'000, .hosts_between = 1};
  direct.bytes = 4 * kMebibyte;
  round.bytes = direct.bytes / 2 - kMebibyte / 6;
  const std::array<PathLoad, 2> paths{{direct, round}};
  const auto parts = bytes_by_path(spread(kMebibyte, kPolicy, paths), 2);
  EXPECT_NEAR(static_cast<double>(parts[1]), kMebibyte / 3.0, 4096);
}

TEST(PathSpread, EveryPathBeginsInTheFirstRound) {
  const std::array<PathLoad, 2> paths{{{.speed_mbps = 100'000}, {.speed_mbps = 100'000}}};
  const StripeTable table = spread(kMebibyte, kPolicy, paths);
  EXPECT_EQ(table.count, 8u);
  EXPECT_NE(table.stripes[0].position % 2, table.stripes[1].position % 2);
}

TEST(PathSpread, WhoHasMoreInFlightGetsLess) {
  const std::array<PathLoad, 2> paths{
      {{.bytes = 600'000, .speed_mbps = 100'000}, {.speed_mbps = 100'000}}};
  const auto parts = bytes_by_path(spread(kMebibyte, kPolicy, paths), 2);
  EXPECT_NEAR(static_cast<double>(parts[0] + 600'000), static_cast<double>(parts[1]), 512);
  const std::array<PathLoad, 2> full{
      {{.bytes = 2 * kMebibyte, .speed_mbps = 100'000}, {.speed_mbps = 100'000}}};
  EXPECT_EQ(bytes_by_path(spread(kMebibyte, kPolicy, full), 2)[0], 0u)
      << "it would be done last as it is";
}

TEST(PathSpread, ASlowPathTakesNoCrumbs) {
  const std::array<PathLoad, 2> paths{{{.speed_mbps = 400'000}, {.speed_mbps = 10'000}}};
  EXPECT_EQ(bytes_by_path(spread(100'000, kPolicy, paths), 2)[1], 0u);
  EXPECT_GT(bytes_by_path(spread(4 * kMebibyte, kPolicy, paths), 2)[1], 0u);
}

TEST(PathSpread, NoMorePathsThanStripes) {
  const std::array<PathLoad, 4> paths{
      {{.speed_mbps = 10}, {.speed_mbps = 30}, {.speed_mbps = 20}, {.speed_mbps = 30}}};
  const auto parts = bytes_by_path(spread(kPolicy.stripe_bytes + 1, kPolicy, paths), 4);
  EXPECT_EQ(parts[0] + parts[2], 0u) << "two stripes: the two fastest";
}

TEST(PathSpread, OneStripeGoesWhereItIsDoneFirst) {
  const std::array<PathLoad, 2> paths{
      {{.bytes = 65536, .speed_mbps = 100'000}, {.speed_mbps = 25'000}}};
  EXPECT_EQ(earliest_path(65536, paths, 0), 0u) << "131072 at 100 are done before 65536 at 25";
  EXPECT_EQ(earliest_path(8192, paths, 0), 1u);
  const std::array<PathLoad, 2> equal{{{.speed_mbps = 1}, {.speed_mbps = 1}}};
  EXPECT_EQ(earliest_path(65536, equal, 0), 0u);
  EXPECT_EQ(earliest_path(65536, equal, 1), 1u) << "they take turns";
}

TEST(PathSpread, EverySpreadCoversItsMessage) {
  const std::uint64_t seed = 4;
  std::mt19937_64 random(seed);
  for (int round = 0; round < 20000; ++round) {
    TransferPolicy policy;
    policy.qps = static_cast<std::uint32_t>(1 + random() % kQpsMax);
    policy.stripe_bytes = kStripeAlign << (random() % 12);
    std::vector<PathLoad> paths(1 + random() % kPathsMax);
    for (PathLoad& path : paths) {
      path.bytes = random() % 3 == 0 ? 0 : random() % (std::uint64_t{1} << (1 + random() % 32));
      path.speed_mbps =
          static_cast<std::uint32_t>(1 + random() % (std::uint64_t{1} << (1 + random() % 20)));
      path.next_qp = static_cast<std::uint32_t>(random());
    }
    const std::uint64_t bytes =
        policy.stripe_bytes + 1 + random() % (std::uint64_t{1} << (1 + random() % 40));
    const StripeTable table = spread(bytes, policy, paths);
    ASSERT_LE(table.count, kStripesMax);
    expect_covers(table, bytes, policy.qps * paths.size());
    ASSERT_FALSE(HasFatalFailure()) << "seed " << seed << " round " << round << " bytes " << bytes;
  }
}

}  // namespace
}  // namespace mesh::engine

#include "engine/link/path_sets.h"

#include "tests/prelude.h"

namespace mesh::engine {
namespace {

// Makes rails with these guids, all on port 1.
std::vector<WireRail> rails(const std::vector<std::uint64_t>& guids) {
  std::vector<WireRail> made;
  for (const std::uint64_t guid : guids) made.emplace_back().guid = guid;
  return made;
}

std::vector<WirePath> meet(const PathKey& pairs) {
  std::vector<WirePath> paths;
  for (const auto& [connector, acceptor] : pairs) {
    paths.emplace_back();
    paths.back().connector_rail = connector;
    paths.back().acceptor_rail = acceptor;
  }
  return paths;
}

AskedRails asked(int rail, int listened, RailsWish wish = RailsWish::Auto) {
  return {.rail = static_cast<std::uint8_t>(rail),
          .listened = static_cast<std::uint8_t>(listened),
          .wish = wish};
}

struct Keys {
  PathKey primary, standby;
  friend bool operator==(const Keys&, const Keys&) = default;
};
Keys keys(const PathSets& sets) { return {key_of(sets.primary), key_of(sets.standby)}; }

// A host with two cables of two halves each, and the pairs that meet between two such hosts.
const std::vector<WireRail> kHost = rails({7, 7, 8, 8});
const std::vector<WirePath> kMeet = meet({{0, 0}, {1, 1}, {2, 2}, {3, 3}});

TEST(PathSets, TheAskedCableToTheListenedOneIsPrimaryWithBothHalves) {
  for (const int rail : {0, 1}) {
    for (const int listened : {0, 1}) {
      EXPECT_EQ(keys(path_sets(kMeet, kHost, kHost, asked(rail, listened))),
                (Keys{{{0, 0}, {1, 1}}, {{2, 2}, {3, 3}}}));
    }
  }
  EXPECT_EQ(path_sets(kMeet, kHost, kHost, asked(1, 0)).primary.front().connector_rail, 1)
      << "the asked half comes first";
}

TEST(PathSets, HalvesAreSeenAtEitherEnd) {
  const std::vector<WireRail> cables = rails({1, 2, 3, 4});
  EXPECT_TRUE(has_halves(meet({{0, 0}, {1, 1}}), kHost, kHost));
  EXPECT_TRUE(has_halves(meet({{0, 0}, {1, 1}}), kHost, cables));
  EXPECT_TRUE(has_halves(meet({{3, 2}, {1, 2}}), cables, cables)) << "both lead to one port";
  EXPECT_FALSE(has_halves(meet({{0, 0}, {2, 2}}), kHost, kHost)) << "one half of each cable";
  EXPECT_FALSE(has_halves(meet({{0, 0}, {1, 1}}), cables, cables));
  EXPECT_FALSE(has_halves(meet({{0, 0}}), kHost, kHost));
  EXPECT_FALSE(has_halves({}, kHost, kHost));
}

TEST(PathSets, ACableThatDoesNotMeetTheListenedOneGoesWhereItCan) {
  EXPECT_EQ(keys(path_sets(kMeet, kHost, kHost, asked(2, 0))),
            (Keys{{{2, 2}, {3, 3}}, {{0, 0}, {1, 1}}}));
}

// The direct mesh: each cable leads to another host.
TEST(PathSets, AllThatMeetsWhereTheAskedCableMeetsNothing) {
  const std::vector<WirePath> other = meet({{2, 1}, {3, 0}});
  for (const int rail : {0, 1}) {
    EXPECT_EQ(keys(path_sets(other, kHost, kHost, asked(rail, 3))), (Keys{{{2, 1}, {3, 0}}, {}}));
  }
}

TEST(PathSets, AskedAllowsNoOtherCable) {
  EXPECT_EQ(keys(path_sets(kMeet, kHost, kHost, asked(0, 2, RailsWish::Asked))),
            (Keys{{{0, 0}, {1, 1}}, {}}));
  EXPECT_EQ(keys(path_sets(meet({{2, 2}}), kHost, kHost, asked(0, 2, RailsWish::Asked))),
            (Keys{{}, {}}));
}

TEST(PathSets, AllTakesEverythingWithTheAskedRailFirst) {
  const PathSets sets = path_sets(kMeet, kHost, kHost, asked(2, 0, RailsWish::All));
  EXPECT_EQ(keys(sets), (Keys{{{0, 0}, {1, 1}, {2, 2}, {3, 3}}, {}}));
  EXPECT_EQ(sets.primary[0].connector_rail, 2);
  EXPECT_EQ(sets.primary[1].connector_rail, 0) << "the others as they were";
}

TEST(PathSets, RailsThatDoNotTellTheirCableAreOneEach) {
  const std::vector<WireRail> host = rails({0, 0});
  EXPECT_EQ(keys(path_sets(meet({{0, 0}, {1, 1}}), host, host, asked(1, 1))),
            (Keys{{{1, 1}}, {{0, 0}}}));
}

TEST(PathSets, PortsOfOneAdapterAreCablesOfTheirOwn) {
  std::vector<WireRail> host = rails({7, 7});
  host[1].port = 2;
  EXPECT_FALSE(same_cable(host, 0, 1));
  host[1].port = 1;
  EXPECT_TRUE(same_cable(host, 0, 1));
  EXPECT_FALSE(same_cable(host, 0, 2)) << "a rail that does not exist has no cable";
}

// Paths that share no end with the cable in use come first, then faster ones, then the order of
// rails.
TEST(PathSets, StandbyPathsAreInTheOrderInWhichTheyHelp) {
  std::vector<WireRail> host = rails({1, 2, 3, 4});
  for (WireRail& rail : host) rail.speed_mbps = 100'000;
  const std::vector<WirePath> every = meet({{0, 0}, {1, 1}, {2, 2}, {3, 3}, {1, 2}});
  const auto order = [&](int rail) {
    PathKey standby;
    for (const WirePath& path : path_sets(every, host, host, asked(rail, rail)).standby)
      standby.emplace_back(path.connector_rail, path.acceptor_rail);
    return standby;
  };
  EXPECT_EQ(order(0), (PathKey{{1, 1}, {1, 2}, {2, 2}, {3, 3}}));
  EXPECT_EQ(order(1), (PathKey{{2, 2}, {3, 3}, {0, 0}, {1, 2}})) << "1 to 2 needs our cable";
  host[2].speed_mbps = 25'000;
  EXPECT_EQ(order(0), (PathKey{{1, 1}, {3, 3}, {1, 2}, {2, 2}}));
}

// Primary and standby paths together have room for kPathsMax.
TEST(PathSets, NoMorePathsThanALinkHolds) {
  PathKey pairs;
  std::vector<std::uint64_t> guids;
  for (std::uint8_t i = 0; i < 12; ++i)
    pairs.emplace_back(i, i), guids.push_back(i < 3 ? 5 : 10u + i);
  const std::vector<WireRail> host = rails(guids);
  const PathSets some = path_sets(meet(pairs), host, host, asked(0, 0));
  EXPECT_EQ(some.primary.size(), 3u);
  EXPECT_EQ(some.standby.size(), kPathsMax - 3u);
  const PathSets all = path_sets(meet(pairs), host, host, asked(11, 0, RailsWish::All));
  EXPECT_EQ(all.primary.size(), std::size_t{kPathsMax});
  EXPECT_EQ(all.primary[0].connector_rail, 11);
}

TEST(PathSets, SixteenCombinationsOfOneSetHaveOneKey) {
  std::set<PathKey> of_one_pair, of_all, of_four;
  for (int rail = 0; rail < 4; ++rail) {
    for (int listened = 0; listened < 4; ++listened) {
      const auto key = [&](const std::vector<WirePath>& which, RailsWish wish) {
        return key_of(path_sets(which, kHost, kHost, asked(rail, listened, wish)).primary);
      };
      of_one_pair.insert(key(meet({{2, 1}}), RailsWish::Auto));
      of_all.insert(key(kMeet, RailsWish::All));
      of_four.insert(key(kMeet, RailsWish::Auto));
    }
  }
  EXPECT_EQ(of_one_pair.size(), 1u);
  EXPECT_EQ(of_all.size(), 1u);
  EXPECT_EQ(of_four.size(), 2u) << "one for each cable";
}

TEST(PathSets, TheSettingIsAWish) {
  EXPECT_EQ(rails_wish("auto"), RailsWish::Auto);
  EXPECT_EQ(rails_wish("asked"), RailsWish::Asked);
  EXPECT_EQ(rails_wish("all"), RailsWish::All);
}

}  // namespace
}  // namespace mesh::engine

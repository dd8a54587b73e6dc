#include "src/topo/pairing.h"

#include "tests/prelude.h"
#include "tests/unit/topo/rail_ends.h"

namespace mesh::topo {
namespace {

using testkit::address_of, testkit::ib_rail, testkit::Pairs, testkit::rail, testkit::rail_with,
    testkit::Rails;

TEST(Pairing, TrianglePairsOnlyTheCableBetween) {
  const Rails a{rail("10.0.12.1"), rail("10.0.13.1")};
  const Rails b{rail("10.0.12.2"), rail("10.0.23.2")};
  const Rails c{rail("10.0.23.3"), rail("10.0.13.3")};
  EXPECT_EQ(pair_rails(a, b), (Pairs{{0, 0}}));
  EXPECT_EQ(pair_rails(b, c), (Pairs{{1, 0}}));
  EXPECT_EQ(pair_rails(a, c), (Pairs{{1, 1}}));
}

TEST(Pairing, PointToPointPrefixesKeepNeighboursApart) {
  EXPECT_EQ(
      pair_rails(Rails{rail("10.0.0.1", 30), rail("10.0.0.5", 30)}, Rails{rail("10.0.0.6", 30)}),
      (Pairs{{1, 0}}));
  EXPECT_EQ(pair_rails(Rails{rail("10.0.0.0", 31), rail("10.0.0.2", 31)},
                       Rails{rail("10.0.0.3", 31), rail("10.0.0.1", 31)}),
            (Pairs{{0, 1}, {1, 0}}));
}

TEST(Pairing, SeveralRailsOnOneSubnetPairInOrder) {
  const Rails locals{rail("10.0.0.1"), rail("10.0.0.2"), rail("10.0.0.3")};
  const Rails peers{rail("10.0.0.11"), rail("10.0.0.12"), rail("10.0.0.13")};
  EXPECT_EQ(pair_rails(locals, peers), (Pairs{{0, 0}, {1, 1}, {2, 2}}));
}

// Makes the rails of eight ports on one switch, with identities by their places.
Rails eight_rails(int host) {
  Rails rails;
  for (std::uint32_t i = 0; i < 8; ++i) {
    rails.push_back(rail(("10.0.0." + std::to_string(10 * host + static_cast<int>(i))).c_str()));
    rails.back().identity = i << 8 | 1;
  }
  return rails;
}

Pairs each_with_its_like() {
  Pairs pairs;
  for (std::size_t i = 0; i < 8; ++i) pairs.push_back({i, i});
  return pairs;
}

TEST(Pairing, RailsOfEqualIdentityMeetWhateverIsMissing) {
  const Rails locals = eight_rails(1);
  Rails peers = eight_rails(2);
  EXPECT_EQ(pair_rails(locals, peers), each_with_its_like());
  peers.erase(peers.begin() + 3);
  EXPECT_EQ(pair_rails(locals, peers),
            (Pairs{{0, 0}, {1, 1}, {2, 2}, {3, 0}, {4, 3}, {5, 4}, {6, 5}, {7, 6}}));
  std::rotate(peers.begin(), peers.begin() + 2, peers.end());
  EXPECT_EQ(pair_rails(peers, locals),
            (Pairs{{0, 2}, {1, 4}, {2, 5}, {3, 6}, {4, 7}, {5, 0}, {6, 1}, {0, 3}}))
      << "in any order of the lists";
}

TEST(Pairing, APortThatIsDownIsPairedWithItsLikeBehindThoseThatAreUp) {
  const Rails locals = eight_rails(1);
  Rails peers = eight_rails(2);
  peers[3].up = false;
  peers[3].speed_mbps = 0;
  EXPECT_EQ(pair_rails(locals, peers, {.preferred_local = 3}),
            (Pairs{{0, 0}, {1, 1}, {2, 2}, {4, 4}, {5, 5}, {6, 6}, {7, 7}, {3, 3}}));
}

TEST(Pairing, APortThatIsDownIsTheLastToBeUsedAgain) {
  const Rails locals = eight_rails(1);
  Rails peers = eight_rails(2);
  peers.erase(peers.begin() + 3);
  peers[0].up = false;
  const Pairs pairs = pair_rails(locals, peers);
  EXPECT_NE(std::find(pairs.begin(), pairs.end(), RailPair{.local = 3, .peer = 1}), pairs.end());
}

TEST(Pairing, TheShorterSideIsUsedAgainSoThatEveryRailWorks) {
  const Rails one{rail("10.0.0.1")};
  const Rails two{rail("10.0.0.11"), rail("10.0.0.12")};
  const Rails five{rail("10.0.0.21"), rail("10.0.0.22"), rail("10.0.0.23"), rail("10.0.0.24"),
                   rail("10.0.0.25")};
  EXPECT_EQ(pair_rails(one, two), (Pairs{{0, 0}, {0, 1}}));
  EXPECT_EQ(pair_rails(two, one), (Pairs{{0, 0}, {1, 0}}));
  EXPECT_EQ(pair_rails(five, two), (Pairs{{0, 0}, {1, 1}, {2, 0}, {3, 1}, {4, 0}}));
  EXPECT_EQ(pair_rails(two, five), (Pairs{{0, 0}, {1, 1}, {0, 2}, {1, 3}, {0, 4}}));
}

TEST(Pairing, BothHalvesOfACableAreTwoPaths) {
  EXPECT_EQ(pair_rails(Rails{rail("10.0.1.1"), rail("10.0.2.1")},
                       Rails{rail("10.0.1.2"), rail("10.0.2.2")}),
            (Pairs{{0, 0}, {1, 1}}));
}

TEST(Pairing, ConnectingToOneselfPairsEachRailWithItself) {
  const Rails own{rail("10.0.0.1"), rail("10.0.0.2"), rail("10.0.9.1")};
  EXPECT_EQ(pair_rails(own, own), (Pairs{{0, 0}, {1, 1}, {2, 2}}));
  const Rails alone{rail("fe80::1", 64)};
  EXPECT_EQ(pair_rails(alone, alone), (Pairs{{0, 0}}));
}

TEST(Pairing, Ipv6PairsLikeTheRest) {
  EXPECT_EQ(pair_rails(Rails{rail("2001:db8:0:7::1", 64), rail("2001:db8:0:1::1", 64)},
                       Rails{rail("2001:db8:0:1::2", 64)}),
            (Pairs{{1, 0}}));
  EXPECT_EQ(pair_rails(Rails{rail("10.0.0.1")}, Rails{rail("2001:db8::1", 64)}), Pairs{});
}

TEST(Pairing, AHostMeetsItselfByTheRailsThatBothProcessesHave) {
  const Rails all{rail("fe80::1", 64), rail("fe80::2", 64)};
  const Rails first{rail("fe80::1", 64)};
  EXPECT_EQ(pair_rails(first, all), (Pairs{{0, 0}}));
  EXPECT_EQ(pair_rails(all, first), (Pairs{{0, 0}}));
}

TEST(Pairing, LinkLocalOnlyWhereNothingElseReaches) {
  const Rails mixed{rail("fe80::1", 64), rail("10.0.12.1"), rail("169.254.7.1", 16)};
  const Rails peer{rail("fe80::2", 64), rail("10.0.12.2"), rail("169.254.9.2", 16)};
  EXPECT_EQ(pair_rails(mixed, peer), (Pairs{{1, 1}}));
  EXPECT_EQ(pair_rails(mixed, Rails{rail("fe80::2", 64)}), (Pairs{{0, 0}}));
  EXPECT_EQ(pair_rails(mixed, Rails{rail("169.254.9.2", 16)}), (Pairs{{2, 0}}));
}

TEST(Pairing, LinkLocalRailsArePairedOnceInOrder) {
  const Rails one{rail("169.254.1.1", 16)};
  const Rails two{rail("169.254.2.1", 16), rail("169.254.2.2", 16)};
  EXPECT_EQ(pair_rails(one, two), (Pairs{{0, 0}}));
  EXPECT_EQ(pair_rails(two, one), (Pairs{{0, 0}}));
  EXPECT_EQ(pair_rails(two, two), (Pairs{{0, 0}, {1, 1}}));
}

TEST(Pairing, InfiniBandPairsBySubnetPrefixAndNeverWithEthernet) {
  EXPECT_EQ(pair_rails(Rails{ib_rail("fe80::1"), ib_rail("fec0::1")},
                       Rails{ib_rail("fec0::2"), ib_rail("fe80::2")}),
            (Pairs{{0, 1}, {1, 0}}));
  EXPECT_EQ(pair_rails(Rails{ib_rail("fe80::1")}, Rails{rail("fe80::2", 64)}), Pairs{});
}

TEST(Pairing, PreferredRailFirstThenTheFaster) {
  const Rails locals{rail("10.0.0.1", 24, 100'000), rail("10.0.1.1", 24, 400'000),
                     rail("10.0.2.1", 24, 200'000)};
  const Rails peers{rail("10.0.0.2", 24, 400'000), rail("10.0.1.2", 24, 25'000),
                    rail("10.0.2.2", 24, 400'000)};
  EXPECT_EQ(pair_rails(locals, peers), (Pairs{{2, 2}, {0, 0}, {1, 1}}));
  EXPECT_EQ(pair_rails(locals, peers, {.preferred_local = 1}), (Pairs{{1, 1}, {2, 2}, {0, 0}}));
  EXPECT_EQ(pair_rails(locals, peers, {.preferred_local = 1, .path_count_max = 2}),
            (Pairs{{1, 1}, {2, 2}}));
}

TEST(Pairing, NeverMorePathsThanALinkHolds) {
  Rails many;
  for (int i = 1; i <= 20; ++i) many.push_back(rail(("10.0.0." + std::to_string(i)).c_str()));
  EXPECT_EQ(pair_rails(many, many).size(), kPathsMax);
  EXPECT_EQ(pair_rails(many, many, {.preferred_local = 15}).front(), (RailPair{15, 15}));
}

// For any cabling, only neighbours are paired, no pair occurs twice, and each rail with a neighbour
// is in a pair.
TEST(Pairing, RandomCablingsKeepThePromises) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  const auto rails_of = [&](int host) {
    Rails rails;
    for (auto i = random() % 6; i > 0; --i)
      rails.push_back(rail(("10.0." + std::to_string(random() % 3) + "." +
                            std::to_string(host + static_cast<int>(i)))
                               .c_str()));
    return rails;
  };
  for (int round = 0; round < 2000; ++round) {
    const Rails locals = rails_of(10);
    const Rails peers = rails_of(100);
    const auto neighbours = [&](std::size_t l, std::size_t p) {
      return locals[l].addresses[0].gid[14] == peers[p].addresses[0].gid[14];
    };
    const Pairs pairs = pair_rails(locals, peers, {.path_count_max = 64});
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      ASSERT_TRUE(neighbours(pairs[i].local, pairs[i].peer));
      ASSERT_EQ(std::count(pairs.begin(), pairs.end(), pairs[i]), 1);
    }
    for (std::size_t l = 0; l < locals.size(); ++l) {
      for (std::size_t p = 0; p < peers.size(); ++p) {
        if (!neighbours(l, p)) continue;
        ASSERT_TRUE(std::any_of(pairs.begin(), pairs.end(),
                                [&](const RailPair& pair) { return pair.local == l; }));
        ASSERT_TRUE(std::any_of(pairs.begin(), pairs.end(),
                                [&](const RailPair& pair) { return pair.peer == p; }));
      }
    }
  }
}

TEST(Pairing, RefusalNamesTheSubnetsOfBothSidesOnce) {
  const Rails locals{rail("10.0.12.1"), rail("10.0.12.9"), rail("10.0.13.1", 30)};
  const Rails peers{rail("10.0.23.2"), rail("2001:db8:0:7::1", 64), ib_rail("fe80::5")};
  EXPECT_EQ(pair_rails(locals, peers), Pairs{});
  EXPECT_EQ(no_common_subnet_text(locals, peers),
            "the first has 10.0.12.0/24, 10.0.13.0/30; the second 10.0.23.0/24, 2001:db8:0:7::/64, "
            "InfiniBand fe80::/64");
  EXPECT_EQ(no_common_subnet_text({}, peers).substr(0, 19), "the first has none;");
}

// The pairing of rails that have several addresses: the common subnet that a path uses.

TEST(Pairing, AnyAddressOfAPortMayBeTheCommonOne) {
  const Rails locals{
      rail_with({address_of("192.168.50.1"), address_of("10.0.12.1"), address_of("fd12::1", 64)})};
  const Rails peers{rail_with({address_of("192.168.60.2"), address_of("172.16.0.2"),
                               address_of("fd12::2", 64), address_of("10.0.12.2")})};
  EXPECT_EQ(pair_rails(locals, peers), (Pairs{{0, 0, 1, 3}}))
      << "the first of ours that the peer shares";
  EXPECT_EQ(pair_rails(peers, locals), (Pairs{{0, 0, 2, 2}}));
  EXPECT_EQ(no_common_subnet_text(locals, peers),
            "the first has 192.168.50.0/24, 10.0.12.0/24, fd12::/64; the second 192.168.60.0/24, "
            "172.16.0.0/24, fd12::/64, "
            "10.0.12.0/24");
}

RailEnd two(const char* cable, int prefix_len, const char* wide, bool wide_first = false) {
  std::vector<RailAddress> addresses{address_of(cable, prefix_len), address_of(wide)};
  if (wide_first) std::swap(addresses[0], addresses[1]);
  return rail_with(std::move(addresses));
}

TEST(Pairing, ACablesOwnSubnetGoesBeforeAWiderOneThatAllShare) {
  const Rails a{two("10.0.12.1", 30, "10.9.0.1"), two("10.0.13.1", 30, "10.9.0.2")};
  const Rails b{two("10.0.13.2", 30, "10.9.0.3"), two("10.0.12.2", 30, "10.9.0.4")};
  EXPECT_EQ(pair_rails(a, b), (Pairs{{0, 1, 0, 0}, {1, 0, 0, 0}}));
  EXPECT_EQ(pair_rails(b, a), (Pairs{{0, 1, 0, 0}, {1, 0, 0, 0}}));
  // Neither the order of the addresses nor the prefix lengths decide.
  const Rails c{two("10.0.12.1", 24, "10.9.0.1", true), two("10.0.13.1", 24, "10.9.0.2", true)};
  const Rails d{two("10.0.13.2", 24, "10.9.0.3", true), two("10.0.12.2", 24, "10.9.0.4", true)};
  EXPECT_EQ(pair_rails(c, d), (Pairs{{0, 1, 1, 1}, {1, 0, 1, 1}}));
  // Only one cable has a subnet of its own, and its rails are not used for other pairs.
  EXPECT_EQ(pair_rails(Rails{rail("10.9.0.1"), c[1]}, Rails{d[0], rail("10.9.0.4")}),
            (Pairs{{0, 1, 0, 0}, {1, 0, 1, 1}}));
}

TEST(Pairing, ACopiedAddressIsNoWay) {
  const RailAddress copied = address_of("192.168.100.1");
  const Rails a{rail_with({copied, address_of("10.0.12.1")}),
                rail_with({copied, address_of("10.0.13.1")})};
  const Rails b{rail_with({copied, address_of("10.0.13.2")}),
                rail_with({copied, address_of("10.0.12.2")})};
  EXPECT_EQ(pair_rails(a, b), (Pairs{{0, 1, 1, 1}, {1, 0, 1, 1}}));
  EXPECT_EQ(pair_rails(Rails{a[0]}, Rails{rail_with({copied, address_of("192.168.100.2")})}),
            (Pairs{{0, 0, 0, 1}}));
  EXPECT_EQ(pair_rails(Rails{rail_with({copied, address_of("fe80::1", 64)})},
                       Rails{rail_with({copied, address_of("fe80::2", 64)})}),
            (Pairs{{0, 0, 1, 1}}))
      << "a link-local address may lead there";
  // The peer process was given fewer rails of its host.
  EXPECT_EQ(pair_rails(a, Rails{rail_with({copied})}), (Pairs{{0, 0}, {1, 0}}));
}

RailEnd rail_at(std::uint32_t identity, const char* text, int prefix_len = 31) {
  RailEnd end = rail(text, prefix_len);
  end.identity = identity;
  return end;
}

PairingWish always(Reach answer) {
  return {.reach = [answer](const RailPair&) { return answer; }};
}

TEST(RoutedPairing, RailsOfOneIdentityMeetAcrossRouters) {
  const Rails a{rail_at(0, "10.1.0.0"), rail_at(1, "10.1.1.0"), rail_at(3, "10.1.3.0")};
  const Rails b{rail_at(1, "10.2.1.0"), rail_at(2, "10.2.2.0"), rail_at(3, "10.2.3.0")};
  EXPECT_EQ(pair_rails(a, b, always(Reach::Yes)), (Pairs{{1, 0}, {2, 2}}));
  EXPECT_EQ(pair_rails(a, b, always(Reach::No)), Pairs{});
  EXPECT_EQ(pair_rails(a, b), Pairs{});
}

TEST(RoutedPairing, ASingleAddressIsEnough) {
  EXPECT_EQ(pair_rails(Rails{rail_at(0, "10.0.0.1", 32)}, Rails{rail_at(0, "10.0.0.2", 32)},
                       always(Reach::Yes)),
            (Pairs{{0, 0}}));
}

TEST(RoutedPairing, WhereNoIdentitiesAreEqualTheOrderCounts) {
  const Rails a{rail_at(0, "10.1.0.0"), rail_at(1, "10.1.1.0")};
  const Rails b{rail_at(8, "10.2.0.0"), rail_at(9, "10.2.1.0"), rail_at(10, "10.2.2.0")};
  EXPECT_EQ(pair_rails(a, b, always(Reach::Yes)), (Pairs{{0, 0}, {1, 1}}));
}

TEST(RoutedPairing, ACommonSubnetComesFirstAndOnlyTheOthersAreAsked) {
  const Rails a{rail_at(0, "192.168.0.1", 24), rail_at(1, "10.1.1.0")};
  const Rails b{rail_at(0, "192.168.0.2", 24), rail_at(1, "10.2.1.0")};
  std::vector<RailPair> asked;
  const PairingWish wish{.reach = [&asked](const RailPair& pair) {
    asked.push_back(pair);
    return Reach::Yes;
  }};
  EXPECT_EQ(pair_rails(a, b, wish), (Pairs{{0, 0}, {1, 1}}));
  EXPECT_EQ(asked, (Pairs{{1, 1}}));
}

TEST(RoutedPairing, AMeshOfCablesStaysOne) {
  const Rails a{rail_at(0, "10.0.12.1", 24), rail_at(1, "10.0.13.1", 24)};
  const Rails b{rail_at(0, "10.0.12.2", 24), rail_at(1, "10.0.23.2", 24)};
  EXPECT_EQ(pair_rails(a, b, always(Reach::No)), (Pairs{{0, 0}}));
  EXPECT_EQ(pair_rails(a, b, always(Reach::Unknown)), (Pairs{{0, 0}}))
      << "where nobody can tell, a pair by subnet is enough";
}

TEST(RoutedPairing, WhereNobodyCanTellIdentityAloneDecides) {
  const Rails a{rail_at(0, "10.1.0.0"), rail_at(1, "10.1.1.0")};
  const Rails b{rail_at(1, "10.2.1.0"), rail_at(0, "10.2.0.0")};
  EXPECT_EQ(pair_rails(a, b, always(Reach::Unknown)), (Pairs{{0, 1}, {1, 0}}));
  const PairingWish one_known{
      .reach = [](const RailPair& pair) { return pair.local == 0 ? Reach::Unknown : Reach::Yes; }};
  EXPECT_EQ(pair_rails(a, b, one_known), (Pairs{{1, 0}})) << "a known route is better";
}

TEST(RoutedPairing, TheFirstAddressesThatReachEachOtherAreTaken) {
  const Rails a{
      rail_with({address_of("fd01::1", 64), address_of("10.1.0.1"), address_of("10.1.9.1")})};
  const Rails b{rail_with({address_of("10.2.0.1"), address_of("fd02::1", 64)})};
  const PairingWish wish{.reach = [](const RailPair& pair) {
    return pair.local_address == 2 ? Reach::Yes : Reach::Unknown;
  }};
  EXPECT_EQ(pair_rails(a, b, wish), (Pairs{{0, 0, 2, 0}}));
  EXPECT_EQ(pair_rails(a, b, always(Reach::Unknown)), (Pairs{{0, 0, 0, 1}}));
}

TEST(RoutedPairing, LinkLocalAndEqualAddressesAreNotAskedAbout) {
  const PairingWish wish{.reach = [](const RailPair&) {
    ADD_FAILURE() << "asked";
    return Reach::Yes;
  }};
  const Rails local{rail_at(0, "169.254.0.1", 16)}, copied{rail_at(0, "10.0.0.1", 31)};
  EXPECT_EQ(pair_rails(local, copied, wish), Pairs{});
}

TEST(RoutedPairing, InfiniBandOfOtherPrefixesPairsByIdentity) {
  Rails a{ib_rail("fec0:0:0:1::a"), ib_rail("fec0:0:0:2::a")};
  Rails b{ib_rail("fec0:0:0:3::b"), ib_rail("fec0:0:0:4::b")};
  for (std::uint32_t i = 0; i < 2; ++i) a[i].identity = b[i].identity = i;
  EXPECT_EQ(pair_rails(a, b, always(Reach::No)), (Pairs{{0, 0}, {1, 1}}));
  b[1] = ib_rail("fec0:0:0:1::b");
  EXPECT_EQ(pair_rails(a, b, always(Reach::No)), (Pairs{{0, 1}})) << "one subnet is enough";
  EXPECT_EQ(pair_rails(a, Rails{rail_at(0, "10.0.0.1")}, always(Reach::Yes)), Pairs{});
}

TEST(RoutedPairing, TheQuestionsAreBounded) {
  const std::vector<RailAddress> many(8, address_of("10.1.0.1"));
  Rails a, b;
  for (std::uint32_t i = 0; i < 64; ++i) {
    a.push_back(rail_with(many));
    b.push_back(rail_with({address_of("10.2.0.1")}));
    a.back().identity = b.back().identity = i;
  }
  std::size_t asked = 0;
  EXPECT_TRUE(pair_rails(a, b,
                         {.reach =
                              [&asked](const RailPair&) {
                                ++asked;
                                return Reach::No;
                              }})
                  .empty());
  EXPECT_EQ(asked, kRoutesAskedMax);
}

SubnetMember member(const char* text, int prefix_len) {
  return {*SocketAddress::from_text(text), prefix_len};
}

TEST(Subnet, PrefixDecides) {
  EXPECT_TRUE(same_subnet(member("10.0.12.1", 24), member("10.0.12.200", 24)));
  EXPECT_FALSE(same_subnet(member("10.0.12.1", 24), member("10.0.13.1", 24)));
  EXPECT_TRUE(same_subnet(member("10.0.12.1", 23), member("10.0.13.1", 23)));
  EXPECT_TRUE(same_subnet(member("1.2.3.4", 0), member("200.2.3.4", 0)));
}

TEST(Subnet, PointToPointPrefixes) {
  EXPECT_TRUE(same_subnet(member("10.0.0.1", 30), member("10.0.0.2", 30)));
  EXPECT_FALSE(same_subnet(member("10.0.0.1", 30), member("10.0.0.5", 30)));
  EXPECT_TRUE(same_subnet(member("10.0.0.4", 31), member("10.0.0.5", 31)));
  EXPECT_FALSE(same_subnet(member("10.0.0.5", 31), member("10.0.0.6", 31)));
  EXPECT_FALSE(same_subnet(member("10.0.0.4", 32), member("10.0.0.5", 32)));
  EXPECT_TRUE(same_subnet(member("10.0.0.4", 32), member("10.0.0.4", 32)));
  EXPECT_TRUE(same_subnet(member("2001:db8::2", 127), member("2001:db8::3", 127)));
  EXPECT_FALSE(same_subnet(member("2001:db8::1", 127), member("2001:db8::2", 127)));
}

TEST(Subnet, BothSidesMustAgree) {
  EXPECT_FALSE(same_subnet(member("10.0.0.1", 16), member("10.0.5.1", 24)));
  EXPECT_FALSE(same_subnet(member("10.0.5.1", 24), member("10.0.0.1", 16)));
  EXPECT_TRUE(same_subnet(member("10.0.5.1", 16), member("10.0.5.2", 24)));
}

TEST(Subnet, FamiliesNeverMixAndIpv6Counts) {
  EXPECT_TRUE(same_subnet(member("2001:db8:0:1::1", 64), member("2001:db8:0:1::ffff", 64)));
  EXPECT_FALSE(same_subnet(member("2001:db8:0:1::1", 64), member("2001:db8:0:2::1", 64)));
  EXPECT_TRUE(same_subnet(member("fe80::1", 64), member("fe80::2", 64)));
  EXPECT_FALSE(same_subnet(member("10.0.0.1", 0), member("2001:db8::1", 0)));
}

TEST(Subnet, PrefixOutOfRangeReachesNobody) {
  EXPECT_FALSE(same_subnet(member("10.0.0.1", 33), member("10.0.0.1", 33)));
  EXPECT_FALSE(same_subnet(member("10.0.0.1", -1), member("10.0.0.1", 24)));
  EXPECT_FALSE(same_subnet({}, {}));
}

TEST(Subnet, TextIsTheNetwork) {
  EXPECT_EQ(subnet_text(member("10.0.12.7", 24)), "10.0.12.0/24");
  EXPECT_EQ(subnet_text(member("10.0.12.7", 30)), "10.0.12.4/30");
  EXPECT_EQ(subnet_text(member("2001:db8:0:1::9", 64)), "2001:db8:0:1::/64");
  EXPECT_EQ(subnet_text(member("fe80::1%lo", 64)), "fe80::/64");
}

}  // namespace
}  // namespace mesh::topo

#include "src/topo/pairing.h"

#include "src/base/socket.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>
#include <random>
#include <utility>
#include <vector>

namespace mesh::topo {

// For gtest's messages.
void PrintTo(const RailPair& pair, std::ostream* out) {
  *out << pair.local << "." << pair.local_address << "-" << pair.peer << "." << pair.peer_address;
}

namespace {

using Pairs = std::vector<RailPair>;
using Rails = std::vector<RailEnd>;

RailAddress address_of(const char* text, int prefix_len = 24) {
  const SocketAddress address = *SocketAddress::from_text(text);
  RailAddress end{.gid = address.bytes, .prefix_len = prefix_len};
  if (address.family == AF_INET) {
    end.gid = {};
    end.gid[10] = end.gid[11] = 0xff;
    std::copy_n(address.bytes.begin(), 4, end.gid.begin() + 12);
  }
  return end;
}
RailEnd rail(const char* text, int prefix_len = 24, std::uint32_t speed_mbps = 100'000) {
  return {.addresses = {address_of(text, prefix_len)}, .speed_mbps = speed_mbps};
}
RailEnd rail_with(std::vector<RailAddress> addresses) {
  return {.addresses = std::move(addresses), .speed_mbps = 100'000};
}
RailEnd ib_rail(const char* text) {
  RailEnd end = rail(text, 64);
  end.ethernet = false;
  return end;
}

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

TEST(Pairing, AnyAddressOfAPortMayBeTheCommonOne) {
  const Rails locals{
      rail_with({address_of("192.168.50.1"), address_of("10.0.12.1"), address_of("fd12::1", 64)})};
  const Rails peers{rail_with({address_of("192.168.60.2"), address_of("172.16.0.2"),
                               address_of("fd12::2", 64), address_of("10.0.12.2")})};
  EXPECT_EQ(pair_rails(locals, peers), (Pairs{{0, 0, 1, 3}}))
      << "the first of ours that the peer shares";
  EXPECT_EQ(pair_rails(peers, locals), (Pairs{{0, 0, 2, 2}}));
  EXPECT_EQ(no_common_subnet_text(locals, peers),
            "our subnets 192.168.50.0/24, 10.0.12.0/24, fd12::/64; the peer's 192.168.60.0/24, "
            "172.16.0.0/24, fd12::/64, "
            "10.0.12.0/24");
}

TEST(Pairing, ACablesOwnSubnetGoesBeforeAWiderOneThatAllShare) {
  const auto two = [](const char* cable, int prefix_len, const char* wide,
                      bool wide_first = false) {
    std::vector<RailAddress> addresses{address_of(cable, prefix_len), address_of(wide)};
    if (wide_first) std::swap(addresses[0], addresses[1]);
    return rail_with(std::move(addresses));
  };
  const Rails a{two("10.0.12.1", 30, "10.9.0.1"), two("10.0.13.1", 30, "10.9.0.2")};
  const Rails b{two("10.0.13.2", 30, "10.9.0.3"), two("10.0.12.2", 30, "10.9.0.4")};
  EXPECT_EQ(pair_rails(a, b), (Pairs{{0, 1, 0, 0}, {1, 0, 0, 0}}));
  EXPECT_EQ(pair_rails(b, a), (Pairs{{0, 1, 0, 0}, {1, 0, 0, 0}}));
  // Neither the order of the addresses nor the prefix lengths decide.
  const Rails c{two("10.0.12.1", 24, "10.9.0.1", true), two("10.0.13.1", 24, "10.9.0.2", true)};
  const Rails d{two("10.0.13.2", 24, "10.9.0.3", true), two("10.0.12.2", 24, "10.9.0.4", true)};
  EXPECT_EQ(pair_rails(c, d), (Pairs{{0, 1, 1, 1}, {1, 0, 1, 1}}));
  // Only one cable has a subnet of its own, and its rails are not lent to the others.
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
  // A process that was given fewer rails of the same host.
  EXPECT_EQ(pair_rails(a, Rails{rail_with({copied})}), (Pairs{{0, 0}, {1, 0}}));
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

// Whatever the cabling: only neighbours are paired, nobody twice with the same, and nobody with a
// neighbour is left out.
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
            "our subnets 10.0.12.0/24, 10.0.13.0/30; the peer's 10.0.23.0/24, 2001:db8:0:7::/64, "
            "InfiniBand fe80::/64");
  EXPECT_EQ(no_common_subnet_text({}, peers).substr(0, 17), "our subnets none;");
}

}  // namespace
}  // namespace mesh::topo

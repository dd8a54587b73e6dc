#include "src/topo/pairing.h"

#include "tests/unit/topo/rail_ends.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace mesh::topo {
namespace {

using testkit::address_of, testkit::ib_rail, testkit::rail, testkit::rail_with;
using testkit::Pairs, testkit::Rails;

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

}  // namespace
}  // namespace mesh::topo

// The paths over other hosts that a link has.
#include "engine/link/path_choice.h"

#include "tests/prelude.h"

namespace mesh::engine {
namespace {

WireRail any_rail() {
  WireRail wire;
  wire.slot_has_room = 1;
  wire.addresses.resize(1);
  wire.mtu = 5;
  return wire;
}

// Two hosts with so many rails each, of which the first `meeting` join the two.
struct TwoHosts {
  explicit TwoHosts(std::size_t rails_each, std::size_t meeting, std::uint64_t guid = 0) {
    for (std::size_t i = 0; i < rails_each; ++i) {
      hello.rails.push_back(any_rail());
      own.push_back(any_rail());
      hello.rails.back().guid = own.back().guid = guid == 0 ? i + 1 : guid;
      if (i < meeting) {
        WirePath& pair = choice.meet.emplace_back();
        pair.connector_rail = pair.acceptor_rail = static_cast<std::uint8_t>(i);
      }
    }
    choice.sets = path_sets(choice.meet, hello.rails, own, hello.asked);
  }
  const PathChoice& with_relays(int both_ways = 0) {
    Settings settings;
    settings.both_ways = both_ways;
    hello.both_ways = static_cast<std::uint8_t>(both_ways);
    add_relayed(hello, own, settings, &choice);
    return choice;
  }
  Hello hello;
  std::vector<WireRail> own;
  PathChoice choice;
};

TEST(RelayedPaths, AreThereWhereBothHostsHaveACableElsewhere) {
  EXPECT_EQ(TwoHosts(8, 4).with_relays().relayed, kRelayPlacesMax);
  EXPECT_EQ(TwoHosts(2, 1).with_relays().relayed, kRelayPlacesMax);
  EXPECT_EQ(TwoHosts(3, 0).with_relays().relayed, kRelayPlacesMax);
  EXPECT_EQ(TwoHosts(2, 2).with_relays().relayed, 0) << "two hosts and nobody else";
  TwoHosts uneven(2, 1);
  uneven.own.pop_back();
  EXPECT_EQ(uneven.with_relays().relayed, 0) << "ours has no other cable";
}

// Hosts of a ring with one subnet on all cables: those that are no neighbours share it, too.
TEST(RelayedPaths, AreThereWhereNoDatagramTellsThatTheHostsMeet) {
  TwoHosts hosts(2, 2);
  hosts.choice.proof.asked = {{0, 0}, {0, 1}, {1, 0}, {1, 1}};
  EXPECT_EQ(hosts.with_relays().relayed, kRelayPlacesMax);
  EXPECT_EQ(hosts.choice.sets.primary.size() + hosts.choice.sets.standby.size(), 2u)
      << "the pairs by place stay: a firewall may have dropped the datagrams";
  TwoHosts half(2, 2);
  half.choice.proof.asked = {{1, 1}};
  EXPECT_EQ(half.with_relays().relayed, kRelayPlacesMax);
  TwoHosts many(kPathsMax, 0);
  many.hello.asked.wish = RailsWish::All;
  for (std::uint8_t rail = 0; rail < kPathsMax; ++rail) {
    WirePath& pair = many.choice.meet.emplace_back();
    pair.connector_rail = pair.acceptor_rail = rail;
    many.choice.proof.asked.push_back({rail, rail});
  }
  many.choice.sets = path_sets(many.choice.meet, many.hello.rails, many.own, many.hello.asked);
  EXPECT_EQ(many.with_relays().relayed, 1);
  EXPECT_EQ(many.choice.sets.primary.size(), kPathsMax - 1);
}

// Whether hosts with one subnet on all cables meet is not known while all ports of one are down.
TEST(RelayedPaths, AreThereWhileNoPortCanAnswerADatagram) {
  TwoHosts hosts(2, 2);
  std::uint8_t number = 0;
  for (std::vector<WireRail>* const rails : {&hosts.hello.rails, &hosts.own}) {
    for (WireRail& rail : *rails) {
      rail.addresses[0] = {.gid = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 10, 0, 0, ++number},
                           .prefix_len = 24};
    }
  }
  for (WireRail& rail : hosts.own) rail.up = 0;
  EXPECT_EQ(hosts.with_relays().relayed, kRelayPlacesMax);
}

// The one port of a host on a switch leads to others there while the peer's port is down.
TEST(RelayedPaths, AreThereWhileEachPairHasAPortThatIsDown) {
  TwoHosts hosts(1, 1);
  hosts.own[0].up = 0;
  EXPECT_EQ(hosts.with_relays().relayed, kRelayPlacesMax);
  TwoHosts others(2, 2);
  others.own[0].up = others.hello.rails[1].up = 0;
  EXPECT_EQ(others.with_relays().relayed, kRelayPlacesMax);
  TwoHosts some(2, 2);
  some.own[0].up = 0;
  EXPECT_EQ(some.with_relays().relayed, 0) << "the other pair is up";
}

TEST(RelayedPaths, AreThereWhateverGuidsTheRailsHave) {
  constexpr std::uint64_t kOne = 7;
  EXPECT_EQ(TwoHosts(2, 1, kOne).with_relays().relayed, kRelayPlacesMax);
  EXPECT_EQ(TwoHosts(8, 4, kOne).with_relays().relayed, kRelayPlacesMax);
}

TEST(RelayedPaths, FindRoomBehindAnyNumberOfCablesToThePeer) {
  for (std::size_t meeting = 1; meeting <= 12; ++meeting) {
    TwoHosts hosts(meeting + 1, meeting);
    const PathChoice& choice = hosts.with_relays();
    const std::size_t direct = choice.sets.primary.size() + choice.sets.standby.size();
    EXPECT_GE(choice.relayed, 1) << meeting;
    EXPECT_LE(direct + choice.relayed, kPathsMax) << meeting;
    EXPECT_GE(direct, std::min<std::size_t>(meeting, kPathsMax - 1)) << meeting;
  }
}

TEST(RelayedPaths, OneNamesARailOfTheAcceptorThatIsUpToCarryBeside) {
  TwoHosts hosts(4, 2);
  hosts.own[2].up = 0;
  const PathChoice& choice = hosts.with_relays(1);
  ASSERT_EQ(choice.beside.size(), 1u);
  EXPECT_EQ(choice.beside[0].connector_rail, 2);
  EXPECT_EQ(choice.beside[0].acceptor_rail, 3);
  EXPECT_TRUE(TwoHosts(4, 2).with_relays(0).beside.empty());
  TwoHosts narrow(4, 2);
  narrow.own[0].slot_has_room = 0;
  EXPECT_TRUE(narrow.with_relays(1).beside.empty());
  EXPECT_TRUE(TwoHosts(4, 0).with_relays(1).beside.empty()) << "beside nothing";
}

TEST(RelayedPaths, AreNotForOtherSitesNorBesideRailsThatWereChosen) {
  const std::vector<WireRail> rails(1);
  const OwnRails own(rails, "east");
  PathChoice meets, unreachable;
  meets.meet.emplace_back();
  Hello hello;
  hello.rails = rails;
  hello.site = "west";
  EXPECT_FALSE(may_be_relayed(hello, own, unreachable));
  hello.site = "east";
  EXPECT_TRUE(may_be_relayed(hello, own, unreachable));
  EXPECT_TRUE(may_be_relayed(hello, own, meets));
  hello.asked.wish = RailsWish::All;
  EXPECT_TRUE(may_be_relayed(hello, own, unreachable));
  EXPECT_FALSE(may_be_relayed(hello, own, meets));
  meets.proof.asked = {{0, 0}};
  EXPECT_TRUE(may_be_relayed(hello, own, meets)) << "no datagram tells that the hosts meet";
  meets.proof.met = {{0, 0}};
  EXPECT_FALSE(may_be_relayed(hello, own, meets));
  hello.asked.wish = RailsWish::Asked;
  EXPECT_FALSE(may_be_relayed(hello, own, unreachable));
}

}  // namespace
}  // namespace mesh::engine

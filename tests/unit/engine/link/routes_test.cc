// The hosts over which two hosts that share no cable can be joined.
#include "engine/link/relay/routes.h"
#include "engine/link/relay/failed_steps.h"
#include "tests/prelude.h"

namespace mesh::engine {
namespace {

// Makes a rail with the address 10.0.SUBNET.HOST/24.
WireRail rail(std::uint8_t subnet, std::uint8_t host, std::uint32_t mbps = 100'000) {
  WireRail rail;
  WireAddress& address = rail.addresses.emplace_back();
  address.gid = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, subnet, host};
  address.prefix_len = 24;
  rail.speed_mbps = mbps;
  rail.mtu = 5;
  return rail;
}

WireHost host(const std::string& name, std::vector<WireRail> rails) {
  WireHost host;
  host.name = name;
  host.ticket = {static_cast<std::uint8_t>(name.front())};
  host.rails = std::move(rails);
  return host;
}

std::string over(const std::vector<WireRail>& own, const std::vector<WireRail>& peer,
                 const std::vector<WireHost>& hosts) {
  const auto route = find_route({.own = own, .peer = peer, .hosts = hosts});
  return route ? route_text(*route) : "nobody";
}

const std::vector<WireRail> kOwn{rail(1, 1)}, kPeer{rail(9, 9)};

TEST(Routes, TakeTheFewestHosts) {
  const WireHost b = host("b", {rail(1, 2), rail(2, 2)}), c = host("c", {rail(2, 3), rail(9, 3)});
  const WireHost d = host("d", {rail(1, 4), rail(9, 4)});
  EXPECT_EQ(over(kOwn, kPeer, {b, c}), "b and c");
  EXPECT_EQ(over(kOwn, kPeer, {b, c, d}), "d");
  EXPECT_EQ(over(kOwn, kPeer, {b}), "nobody");
}

TEST(Routes, NameThePortsOfEachStep) {
  const WireHost b = host("b", {rail(7, 2), rail(1, 2), rail(9, 2)});
  const auto route = find_route({.own = kOwn, .peer = kPeer, .hosts = std::vector<WireHost>{b}});
  ASSERT_TRUE(route && route->hops.size() == 1);
  EXPECT_EQ(route->hops[0].near_rail, 1);
  EXPECT_EQ(route->hops[0].far_rail, 2);
}

TEST(Routes, OfAsManyHostsTakeTheFastest) {
  const WireHost slow = host("b", {rail(1, 2), rail(9, 2, 10'000)});
  const WireHost fast = host("c", {rail(1, 3), rail(9, 3)});
  EXPECT_EQ(over(kOwn, kPeer, {slow, fast}), "c");
  EXPECT_EQ(over(kOwn, kPeer, {fast, slow}), "c");
}

TEST(Routes, CrossNoPortThatIsDownAndNoMoreThanThreeHosts) {
  WireHost b = host("b", {rail(1, 2), rail(9, 2)});
  b.rails[1].up = 0;
  EXPECT_EQ(over(kOwn, kPeer, {b}), "nobody");
  const std::vector<WireHost> row{
      host("b", {rail(1, 2), rail(2, 2)}), host("c", {rail(2, 3), rail(3, 3)}),
      host("d", {rail(3, 4), rail(4, 4)}), host("e", {rail(4, 5), rail(5, 5)})};
  EXPECT_EQ(over(kOwn, {rail(4, 9)}, row), "b and c and d");
  EXPECT_EQ(over(kOwn, {rail(5, 9)}, row), "nobody");
}

// Only our second rail leads to b, and b reaches only the peer's third rail.
TEST(Routes, LookOverAllRailsOfBothHosts) {
  const std::vector<WireRail> own{rail(1, 1), rail(2, 1)};
  const std::vector<WireRail> peer{rail(7, 9), rail(8, 9), rail(9, 9)};
  const std::vector<WireHost> hosts{host("b", {rail(9, 2), rail(2, 2)})};
  const auto route = find_route({.own = own, .peer = peer, .hosts = hosts});
  ASSERT_TRUE(route);
  EXPECT_EQ(route->own_rail, 1);
  EXPECT_EQ(route->peer_rail, 2);
  EXPECT_FALSE(find_route({.own = own, .peer = peer, .hosts = hosts, .peer_rail = 0}));
  EXPECT_TRUE(find_route({.own = own, .peer = peer, .hosts = hosts, .peer_rail = 2}));
}

TEST(Routes, DoNotCareWhatGuidsRailsHave) {
  for (const std::uint64_t guid : {std::uint64_t{0}, std::uint64_t{7}}) {
    std::vector<WireRail> own{rail(1, 1), rail(2, 1)}, peer{rail(8, 9), rail(9, 9)};
    std::vector<WireHost> hosts{host("b", {rail(3, 2), rail(2, 2), rail(9, 2)})};
    for (std::vector<WireRail>* const rails : {&own, &peer, &hosts[0].rails}) {
      for (WireRail& each : *rails) each.guid = guid;
    }
    EXPECT_EQ(over(own, peer, hosts), "b") << guid;
  }
}

// The route would go out of our NIC and back into it.
TEST(Routes, TakeNoProcessOfOurHostOrThePeersForAHostBetween) {
  const std::vector<WireRail> own{rail(1, 1), rail(2, 1)}, peer{rail(8, 9), rail(9, 9)};
  const WireHost ours = host("s", own), theirs = host("t", peer);
  const WireHost one_of_ours = host("u", {rail(2, 1)});
  const WireHost more_of_theirs = host("v", {rail(8, 9), rail(1, 9), rail(9, 9)});
  const WireHost b = host("b", {rail(1, 2), rail(8, 2)});
  EXPECT_EQ(over(own, peer, {ours, theirs, one_of_ours, more_of_theirs}), "nobody");
  EXPECT_EQ(over(own, peer, {ours, one_of_ours, theirs, b}), "b");
  const HostsBetween two{.least = 2, .most = 2};
  const std::vector<WireHost> all{ours, theirs, b};
  EXPECT_FALSE(find_route({.own = own, .peer = peer, .hosts = all, .between = two}));
  // A setting that was copied to another host: its other rail says that it is another one.
  const WireHost copied = host("c", {rail(2, 1), rail(1, 3), rail(9, 3)});
  EXPECT_EQ(over(own, peer, {copied}), "c");
}

// The word of one process of a host about its ports may be older than that of another one.
TEST(Routes, TakeNoTwoProcessesOfOneHost) {
  WireRail down = rail(1, 2);
  down.up = 0;
  const WireHost b = host("b", {rail(1, 2), rail(2, 2)});
  const WireHost beside = host("o", {down, rail(2, 2), rail(9, 2)});
  EXPECT_EQ(over(kOwn, kPeer, {b, beside}), "nobody");
  WireRail cut = rail(2, 2);
  cut.up = 0;
  const WireHost c = host("c", {rail(2, 3), rail(3, 3)});
  const WireHost again = host("r", {down, cut, rail(3, 2), rail(9, 2)});
  EXPECT_EQ(over(kOwn, kPeer, {b, c, again}), "nobody") << "with another host between";
}

// Ports without a GUID have one link-local IPv6 address on all hosts.
TEST(Routes, LeadOverHostsThatShareALinkLocalAddress) {
  const auto port = [](std::uint8_t host) {
    WireRail made = rail(host, host);
    made.addresses.front().gid = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 169, 254, 1, host};
    made.addresses.front().prefix_len = 16;
    made.addresses.push_back({.gid = {0xfe, 0x80}, .prefix_len = 64});
    return made;
  };
  EXPECT_EQ(over({port(1)}, {port(2)}, {host("b", {port(3), port(4)})}), "b");
  EXPECT_EQ(over({port(1)}, {port(2)}, {host("b", {port(1), port(3)})}), "nobody")
      << "a process of our own host";
}

TEST(Routes, LeadOverAsManyHostsAsTheirPlaceAllows) {
  const std::vector<WireRail> peer{rail(8, 9), rail(9, 9)};
  const std::vector<WireHost> hosts{host("b", {rail(1, 2), rail(9, 2)}),
                                    host("c", {rail(1, 3), rail(3, 3)}),
                                    host("d", {rail(3, 4), rail(8, 4)})};
  const auto with = [&](HostsBetween between) {
    const auto route = find_route({.own = kOwn, .peer = peer, .hosts = hosts, .between = between});
    return route ? route_text(*route) : "nobody";
  };
  EXPECT_EQ(with({.least = 1, .most = 1}), "b");
  EXPECT_EQ(with({.least = 2, .most = 2}), "c and d");
  EXPECT_EQ(with({.least = 2, .most = 3}), "c and d");
  EXPECT_EQ(with({.least = 3, .most = 3}), "nobody");
}

TEST(Routes, ThePlacesOfALinkGoFromFewHostsToMany) {
  for (std::uint32_t places = 1; places <= kRelayPlacesMax; ++places) {
    std::uint32_t most = 0;
    for (std::uint32_t place = 0; place < places; ++place) {
      const HostsBetween between = hosts_of_place(place, places);
      EXPECT_LE(between.least, most + 1) << places << " places leave a number of hosts out";
      EXPECT_GE(between.least, std::max(most, 1u)) << places;
      EXPECT_GE(between.most, between.least);
      most = between.most;
    }
    EXPECT_EQ(most, kRouteHostsMax);
  }
  EXPECT_EQ(hosts_text(hosts_of_place(1, kRelayPlacesMax)), "1 host");
  EXPECT_EQ(hosts_text(hosts_of_place(0, 1)), "1 to 3 hosts");
}

// Eight cables to each of two hosts: links of other names take other hosts and other cables.
TEST(Routes, OfEqualsGoOverAllHostsAndCablesWhereManyLinksLookForThem) {
  std::vector<WireRail> own, peer;
  std::vector<WireHost> hosts{host("b", {}), host("d", {})};
  for (std::uint8_t i = 0; i < 16; ++i) {
    own.push_back(rail(i, 1)), peer.push_back(rail(static_cast<std::uint8_t>(100 + i), 9));
    hosts[i % 2].rails.push_back(rail(i, 2));
    hosts[i % 2].rails.push_back(rail(static_cast<std::uint8_t>(100 + i), 2));
  }
  std::set<std::string> over_hosts;
  std::set<int> over_rails;
  for (std::uint64_t link = 1; link <= 64; ++link) {
    const auto route = find_route({.own = own, .peer = peer, .hosts = hosts, .spread = link});
    ASSERT_TRUE(route);
    over_hosts.insert(route_text(*route));
    over_rails.insert(route->own_rail);
  }
  EXPECT_EQ(over_hosts.size(), 2u);
  EXPECT_GT(over_rails.size(), 8u);
}

// b has two cables on each side, d one. Nobody knows why a route fails.
TEST(Routes, ThatHaveFailedGoOverAnotherHostAndThenOverOtherCables) {
  const std::vector<WireRail> own{rail(1, 1), rail(2, 1), rail(3, 1)};
  const std::vector<WireRail> peer{rail(7, 9), rail(8, 9), rail(9, 9)};
  const std::vector<WireHost> hosts{host("b", {rail(1, 2), rail(2, 2), rail(8, 2), rail(9, 2)}),
                                    host("d", {rail(3, 4), rail(7, 4)})};
  FailedSteps failed;
  std::string tries;
  for (int i = 0; i < 4; ++i) {
    const auto route = find_route({.own = own, .peer = peer, .hosts = hosts, .failed = &failed});
    ASSERT_TRUE(route);
    tries += route_text(*route) + std::to_string(route->own_rail) + " ";
    failed.add(*route, {}, 1);
  }
  EXPECT_EQ(tries, "b0 d2 b1 d2 ");
}

// One cable of b swallows everything, and b is the only host between.
TEST(Routes, ThatTheHostBetweenBlamesOnItselfGoOverItsOtherCable) {
  const std::vector<WireRail> peer{rail(8, 9), rail(9, 9)};
  const std::vector<WireHost> hosts{host("b", {rail(1, 2), rail(8, 2), rail(9, 2)})};
  FailedSteps failed;
  std::set<int> far;
  for (int i = 0; i < 2; ++i) {
    const auto route = find_route({.own = kOwn, .peer = peer, .hosts = hosts, .failed = &failed});
    ASSERT_TRUE(route);
    far.insert(route->hops[0].far_rail);
    failed.add(*route, hosts[0].ticket, 1);
  }
  EXPECT_EQ(far.size(), 2u);
}

}  // namespace
}  // namespace mesh::engine

// The hosts over which two rails that do not meet can be joined.
#include "engine/link/relay/routes.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

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

}  // namespace
}  // namespace mesh::engine

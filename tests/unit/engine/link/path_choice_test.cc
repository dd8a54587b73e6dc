#include "engine/link/path_choice.h"

#include "src/base/socket.h"
#include "tests/prelude.h"

namespace mesh::engine {
namespace {

WireAddress address(const char* text, std::uint8_t prefix_len) {
  const SocketAddress parsed = *SocketAddress::from_text(text);
  WireAddress wire{.gid = parsed.bytes, .prefix_len = prefix_len};
  if (parsed.family != AF_INET) return wire;
  wire.gid = {};
  wire.gid[10] = wire.gid[11] = 0xff;
  std::copy_n(parsed.bytes.begin(), 4, wire.gid.begin() + 12);
  return wire;
}

WireRail rail(std::vector<WireAddress> addresses, std::uint8_t mtu = 5) {
  WireRail wire;
  wire.addresses = std::move(addresses);
  wire.mtu = mtu;
  return wire;
}

// Finds no route, as on a host without routers.
verbs::Route no_route(std::size_t, std::size_t, const WireAddress&) {
  return {.kind = verbs::RouteKind::None, .netdev = ""};
}

TEST(PathChoice, NamesRailAndAddressOfBothSides) {
  Hello hello;
  hello.rails = {rail({address("192.168.50.1", 24), address("10.0.12.1", 24)}),
                 rail({address("fd12::1", 64)}, 3)};
  const std::vector<WireRail> own{
      rail({address("10.9.0.1", 16), address("10.8.0.1", 16), address("fd12::2", 64)}),
      rail({address("172.16.0.2", 12), address("10.0.12.2", 24)})};
  const std::vector<WirePath> paths = choose_paths(hello, own, no_route).meet;
  ASSERT_EQ(paths.size(), 2u);
  EXPECT_EQ(paths[0].connector_rail, 0);
  EXPECT_EQ(paths[0].connector_address, 1);
  EXPECT_EQ(paths[0].acceptor_rail, 1);
  EXPECT_EQ(paths[0].acceptor_address, 1);
  EXPECT_EQ(paths[0].mtu, 5);
  EXPECT_EQ(paths[1].connector_rail, 1);
  EXPECT_EQ(paths[1].connector_address, 0);
  EXPECT_EQ(paths[1].acceptor_rail, 0);
  EXPECT_EQ(paths[1].acceptor_address, 2);
  EXPECT_EQ(paths[1].mtu, 3) << "the smaller of both ends";
  EXPECT_EQ(address_text(own[paths[0].acceptor_rail].addresses[paths[0].acceptor_address]),
            "10.0.12.2");
}

TEST(PathChoice, NoCommonSubnetIsToldFromBothSides) {
  Hello hello;
  hello.rails = {rail({address("10.0.12.1", 24)})};
  const std::vector<WireRail> own{rail({address("10.0.23.3", 24)})};
  EXPECT_TRUE(choose_paths(hello, own, no_route).meet.empty());
  EXPECT_EQ(no_path_text(hello, own), "the first has 10.0.12.0/24; the second 10.0.23.0/24");
}

TEST(PathChoice, ARouteOfTheAcceptorsRailMakesAPath) {
  Hello hello;
  hello.rails = {rail({address("10.1.0.0", 31)}), rail({address("10.1.1.0", 31)})};
  hello.rails[0].identity = 4;
  hello.rails[1].identity = 5;
  std::vector<WireRail> own{rail({address("10.9.0.1", 24), address("10.2.1.0", 31)})};
  own[0].identity = 5;
  own[0].name = "mlx5_5:1";
  const auto ask = [](std::size_t, std::size_t from, const WireAddress& to) -> verbs::Route {
    EXPECT_EQ(address_text(to), "10.1.1.0") << "the rail of the same identity";
    if (from == 1) return {.kind = verbs::RouteKind::ByPort, .netdev = ""};
    return {.kind = verbs::RouteKind::Elsewhere, .netdev = "eth0"};
  };
  const PathChoice choice = choose_paths(hello, own, ask);
  ASSERT_EQ(choice.meet.size(), 1u);
  EXPECT_EQ(choice.meet[0].connector_rail, 1);
  EXPECT_EQ(choice.meet[0].acceptor_address, 1);
  EXPECT_EQ(choice.elsewhere, "the route from mlx5_5:1 10.9.0.1 to 10.1.1.0 leaves by eth0");
  own[0].identity = 6;
  EXPECT_TRUE(choose_paths(hello, own, no_route).meet.empty());
}

TEST(PathChoice, APortThatIsDownKeepsThePlaceOfItsIdentityBehindThoseThatAreUp) {
  Hello hello;
  std::vector<WireRail> own;
  for (const std::uint32_t i : {0u, 1u, 2u}) {
    hello.rails.push_back(rail({address("10.0.0.1", 24)}));
    hello.rails.back().addresses[0].gid[15] = static_cast<std::uint8_t>(10 + i);
    hello.rails.back().identity = i;
    hello.rails.back().speed_mbps = 1000 * (i + 1);
  }
  for (const std::uint32_t i : {2u, 0u, 1u}) {
    own.push_back(rail({address("10.0.0.2", 24)}));
    own.back().addresses[0].gid[15] = static_cast<std::uint8_t>(20 + i);
    own.back().identity = i;
  }
  own[2].up = 0;
  hello.asked = {.rail = 1, .wish = RailsWish::All};
  const std::vector<WirePath> paths = choose_paths(hello, own, no_route).sets.primary;
  ASSERT_EQ(paths.size(), 3u);
  const auto ends = [&](std::size_t i) {
    return std::pair<int, int>(paths[i].connector_rail, paths[i].acceptor_rail);
  };
  EXPECT_EQ(ends(0), std::pair(0, 1));
  EXPECT_EQ(ends(1), std::pair(2, 0));
  EXPECT_EQ(ends(2), std::pair(1, 2)) << "preferred, and of no use before it is up";
}

// Rail 0 leaves its site on both sides; no other rail does so on both.
TEST(PathChoice, BetweenSitesOnlyRailsThatLeaveBothMeet) {
  Hello hello;
  std::vector<WireRail> own;
  for (const char* subnet : {"10.0.1.", "10.0.2.", "10.0.3."}) {
    hello.rails.push_back(rail({address((std::string(subnet) + "1").c_str(), 24)}));
    own.push_back(rail({address((std::string(subnet) + "2").c_str(), 24)}));
  }
  hello.rails[1].leaves_site = own[2].leaves_site = 0;
  const auto pairs = [&](const char* own_site) {
    return choose_paths(hello, {own, own_site}, no_route).meet.size();
  };
  hello.site = "east";
  EXPECT_EQ(pairs("east"), 3u);
  EXPECT_EQ(pairs("west"), 1u);
  own[0].leaves_site = 0;
  EXPECT_EQ(pairs("west"), 0u);
  EXPECT_EQ(
      no_path_text(hello, {own, "west"}),
      "of the rails that leave their sites east and west (NCCL_MESH_SITE_RAILS), the first has "
      "10.0.1.0/24, 10.0.3.0/24; the second 10.0.2.0/24");
}

TEST(PathChoice, ACableThatIsNotKnownHasAPlaceWhereAddressesLeaveADoubt) {
  const auto with_rails = [](int count, int first, std::uint8_t prefix_len) {
    std::vector<WireRail> rails;
    rails.reserve(static_cast<std::size_t>(count));
    for (int i = 0; i < count; ++i)
      rails.push_back(rail({address(
          ("10.0." + std::to_string(i) + "." + std::to_string(first)).c_str(), prefix_len)}));
    return rails;
  };
  const auto places = [](const Hello& hello, const std::vector<WireRail>& own, int relayed,
                         const topo::CableProof* proof = nullptr) {
    PathChoice choice = choose_paths(hello, own, no_route, proof);
    choice.relayed = static_cast<std::uint8_t>(relayed);
    add_by_proof(hello, own, &choice);
    return std::vector<std::size_t>{choice.sets.primary.size(), choice.sets.standby.size(),
                                    choice.by_proof, choice.relayed};
  };
  using Counts = std::vector<std::size_t>;
  Hello hello;
  hello.asked.wish = RailsWish::All;
  hello.rails = with_rails(2, 1, 24);
  EXPECT_EQ(places(hello, with_rails(2, 2, 24), 0), (Counts{2, 0, 0, 0})) << "there is no doubt";
  hello.rails = with_rails(2, 1, 16);
  EXPECT_EQ(places(hello, with_rails(2, 2, 16), 4), (Counts{2, 0, 1, 4}));
  hello.rails = with_rails(6, 1, 16);
  EXPECT_EQ(places(hello, with_rails(6, 2, 16), 2), (Counts{6, 0, 1, 1}));
  hello.rails = with_rails(7, 1, 16);
  EXPECT_EQ(places(hello, with_rails(7, 2, 16), 1), (Counts{6, 0, 1, 1}))
      << "the last pair by place gives way: cables may be in any order";
  hello.rails = with_rails(8, 1, 16);
  EXPECT_EQ(places(hello, with_rails(8, 2, 16), 0), (Counts{7, 0, 1, 0}));
  topo::CableProof proof{.asked = {{0, 0}}, .met = {{0, 0}}};
  EXPECT_EQ(places(hello, with_rails(8, 2, 16), 0, &proof), (Counts{7, 0, 1, 0}))
      << "the last pair by place gives way";
  for (std::size_t i = 1; i < 8; ++i) proof.met.push_back({i, i});
  proof.asked = proof.met;
  EXPECT_EQ(places(hello, with_rails(8, 2, 16), 0, &proof), (Counts{8, 0, 0, 0}))
      << "a cable that is known does not";
  hello.asked.wish = RailsWish::Auto;
  const Counts of_eight = places(hello, with_rails(8, 2, 16), 0);
  EXPECT_EQ(of_eight[0] + of_eight[1] + of_eight[2], kPathsMax);
  EXPECT_EQ(of_eight[2], 1u) << "the last cable gives way";
  hello.asked.wish = RailsWish::Asked;
  EXPECT_EQ(places(hello, with_rails(8, 2, 16), 0)[2], 0u);
}

TEST(PathChoice, RailsInOneSubnetAreTold) {
  std::vector<WireRail> rails{rail({address("10.0.12.1", 24), address("10.0.12.9", 24)}),
                              rail({address("10.0.13.1", 24)}), rail({address("10.0.12.3", 24)}),
                              rail({address("10.0.12.4", 30)})};
  const std::vector<std::string> names{"n0:1", "n1:1", "n2:1", "n3:1"};
  for (std::size_t i = 0; i < rails.size(); ++i) rails[i].name = names[i];
  const std::vector<std::string> lines = shared_subnet_lines(rails);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0],
            "rails n0:1, n2:1 are in one subnet 10.0.12.0/24: datagrams tell which cable leads "
            "where; without answers, ports meet in this order");
}

}  // namespace
}  // namespace mesh::engine

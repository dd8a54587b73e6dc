// The hosts that a process asks to relay, without any real host: what hosts say of themselves and
// of others, how often they are asked, and what becomes of a connection on which nobody answers.
#include "engine/link/relay/relay_client.h"
#include "engine/link/relay/failed_steps.h"
#include "src/base/timeouts.h"
#include "src/soft/fabric_file.h"
#include "tests/prelude.h"
#include "tests/unit/engine/link/fake_host.h"
#include "tests/unit/engine/units.h"

namespace mesh::engine {
namespace {

using testkit::kMs;

// Makes a rail with the address 10.0.SUBNET.HOST/24.
WireRail rail(std::uint8_t subnet, std::uint8_t host, bool up = true) {
  WireRail rail;
  WireAddress& address = rail.addresses.emplace_back();
  address.gid = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, subnet, host};
  address.prefix_len = 24;
  rail.mtu = 5;
  rail.up = up ? 1 : 0;
  return rail;
}

WireHost host(const std::string& name, std::vector<WireRail> rails) {
  WireHost host;
  host.name = name;
  host.ticket = {static_cast<std::uint8_t>(name.front())};
  host.port = 4711;
  host.addresses = {*SocketAddress::from_text("127.0.0.2")};
  host.rails = std::move(rails);
  return host;
}

// We are on subnet 1, the peer c on subnet 2, and b on both. But b's port on subnet 2 was down when
// our link with b came up.
class RelayClientTest : public testing::Test {
 protected:
  RelayClientTest() { peers_ = {b(false), host("c", {rail(2, 3)})}; }

  static WireHost b(bool up) { return host("b", {rail(1, 2), rail(2, 2, up)}); }
  std::optional<RelayRoute> find() {
    return client_
        .search({.own = own_, .peer = peer_, .hosts = {}, .failed = &failed_}, {.peer = {'c'}})
        .route;
  }
  ConnectionId connection_to(const std::string& name) {
    for (const auto& said : us_.wire.said) {
      AskPeers ask;
      if (decode_into(body(said), &ask) && ask.ticket == Id128{static_cast<std::uint8_t>(name[0])})
        return said.connection;
    }
    ADD_FAILURE() << name << " was not asked";
    return 0;
  }
  void hear(ConnectionId from, const PeersAre& peers) {
    const Bytes frame = encode(FrameHeader{}, peers);
    EXPECT_TRUE(client_.on_frame(from, {.type = MessageType::PeersAre},
                                 std::span(frame).subspan(kFrameHeaderBytes)));
  }
  static std::span<const std::byte> body(const testkit::FakePlane::Sent& said) {
    return std::span(said.frame).subspan(kFrameHeaderBytes);
  }
  std::ptrdiff_t count(MessageType type) const {
    const std::vector<MessageType> types = us_.wire.types();
    return std::count(types.begin(), types.end(), type);
  }
  void pass(std::uint64_t ms) {
    for (std::uint64_t i = 0; i < ms; ++i) clock_ += kMs, client_.tend();
  }
  // Learns on a connection that is up that b can relay, and asks b for chains.
  std::unique_ptr<RelayedChains> chains_over_b() {
    EXPECT_FALSE(find());
    on_b_ = connection_to("b");
    client_.on_dialed(on_b_);
    hear(on_b_, {.host = {b(true)}});
    auto route = find();
    EXPECT_TRUE(route);
    us_.wire.said.clear();
    return client_.ask({.route = *std::move(route),
                        .sizes = {.qps = 1, .sq_depth = 16, .express_bytes = 64, .wr_bytes = 64},
                        .changed = [] {}});
  }

  std::atomic<std::uint64_t> clock_{1'000'000'000};
  testkit::FakeHost us_{soft::parse(testkit::kLine).value(), "a", clock_};
  std::vector<WireHost> peers_;
  RelayClient client_{us_, [this] { return peers_; }};
  const std::vector<WireRail> own_{rail(1, 1)};
  std::vector<WireRail> peer_{rail(2, 3)};
  ConnectionId on_b_ = 0;
  FailedSteps failed_;
};

TEST_F(RelayClientTest, WhatAHostSaysOfItsOwnPortsCounts) {
  ASSERT_FALSE(find());
  const ConnectionId on_b = connection_to("b");
  hear(on_b, {.host = {b(true)}});
  ASSERT_TRUE(find());
  hear(on_b, {.host = {b(false)}});
  EXPECT_FALSE(find());
}

// A path that waits for its next try looks for a way at once when there is news.
TEST_F(RelayClientTest, APortThatIsUpOrDownNowIsNewsAndAnAnswerLikeTheLastIsNone) {
  ASSERT_FALSE(find());
  const ConnectionId of_b = connection_to("b");
  hear(of_b, {.host = {b(false)}});
  std::uint64_t before = client_.news();
  hear(of_b, {.host = {b(false)}});
  EXPECT_EQ(client_.news(), before);
  for (const bool up : {true, false}) {
    hear(of_b, {.host = {b(up)}});
    EXPECT_NE(client_.news(), before) << up;
    before = client_.news();
  }
}

TEST_F(RelayClientTest, ThePeersPortThatHasComeUpIsReached) {
  peers_ = {b(true), host("c", {rail(2, 3, false)})};
  peer_ = {rail(2, 3, false)};
  ASSERT_FALSE(find());
  hear(connection_to("c"), {.host = {host("c", {rail(2, 3)})}});
  EXPECT_TRUE(find());
}

// A host whose chains have failed may have a port that is down.
TEST_F(RelayClientTest, AHostThatHasFailedIsAskedAnew) {
  peers_ = {b(true)};
  const auto route = find();
  ASSERT_TRUE(route);
  EXPECT_EQ(count(MessageType::AskPeers), 0);
  failed_.add(*route, b(true).ticket, clock_);
  EXPECT_TRUE(find());
  EXPECT_EQ(count(MessageType::AskPeers), 1);
}

TEST_F(RelayClientTest, AHostOverWhichAnotherPathLeadsIsNotTaken) {
  peers_ = {b(true), host("d", {rail(1, 4), rail(2, 4)})};
  const auto without = [this](const std::vector<Id128>& others) {
    const auto route =
        client_.search({.own = own_, .peer = peer_, .hosts = {}}, {.peer = {'c'}, .others = others})
            .route;
    return route ? route_text(*route) : "nobody";
  };
  EXPECT_EQ(without({}), "b");
  EXPECT_EQ(without({{'b'}}), "d");
  EXPECT_EQ(without({{'b'}, {'d'}}), "nobody");
}

// All ports are in one subnet. A way over known cables leads over b and e. By their places each of
// them alone would lead to the peer, too.
TEST_F(RelayClientTest, AGuessTakesNoHostOfAKnownWayThatAnotherPathHas) {
  const auto two_ports = [](const char* name, std::uint8_t number) {
    return host(name, {rail(1, number), rail(1, number + 10)});
  };
  const auto to = [](WireHost other, std::uint8_t own_rail, std::uint64_t peer_rails) {
    other.cables = {{.rail = own_rail, .asked = 3, .met = peer_rails}};
    return other;
  };
  const WireHost b = two_ports("b", 2), e = two_ports("e", 5);
  const WireHost c = host("c", {rail(1, 3)});
  peer_ = c.rails;
  peers_ = {to(b, 0, 1), e, c};
  const auto search = [this](const std::vector<Id128>& others) {
    const RelayClient::Found found = client_.search({.own = own_, .peer = peer_, .hosts = {}},
                                                    {.peer = {'c'}, .others = others});
    return std::pair(found.route ? route_text(*found.route) : "nobody", found.other_way);
  };
  search({});
  const auto hear_all = [this](const WireHost& from, const std::vector<WireHost>& known) {
    const ConnectionId connection = connection_to(from.name);
    hear(connection, {.left = static_cast<std::uint16_t>(known.size()), .host = {from}});
    for (std::size_t i = 0; i < known.size(); ++i)
      hear(connection,
           {.left = static_cast<std::uint16_t>(known.size() - 1 - i), .host = {known[i]}});
  };
  hear_all(b, {to(e, 1, 1)});
  hear_all(e, {to(c, 1, 1), to(b, 0, 2)});
  hear_all(c, {});
  EXPECT_EQ(search({}), std::pair(std::string("b and e"), false));
  for (const Id128 held : {Id128{'b'}, Id128{'e'}})
    EXPECT_EQ(search({held}), std::pair(std::string("nobody"), true));
}

// Records the routes that are tried one after the other while `failing` hosts never relay.
class FailingHosts : public RelayClientTest {
 protected:
  std::string tries(const std::vector<WireHost>& hosts, const std::string& failing, int count) {
    peers_ = hosts;
    peers_.push_back(host("c", {rail(2, 3)}));
    std::string routes;
    for (int i = 0; i < count; ++i) {
      clock_ += pause_ns_;
      const auto route = find();
      if (!route) return routes + " none";
      routes += " " + route_text(*route);
      for (const RouteHop& hop : route->hops) {
        if (failing.find(hop.host.name) == std::string::npos) continue;
        failed_.add(*route, knows_who_ ? hop.host.ticket : Id128{}, clock_);
        break;
      }
    }
    return routes;
  }
  std::uint64_t pause_ns_ = kMs;
  bool knows_who_ = true;
};

TEST_F(FailingHosts, EachIsTriedBeforeOneIsTriedAgain) {
  const std::vector<WireHost> hosts{host("d", {rail(1, 4), rail(2, 4)}),
                                    host("e", {rail(1, 5), rail(2, 5)}),
                                    host("f", {rail(1, 6), rail(2, 6)})};
  EXPECT_EQ(tries(hosts, "de", 4), " d e f f");
  EXPECT_EQ(tries(hosts, "def", 5), " f d e f d");
}

TEST_F(FailingHosts, OnlyTheOneThatRefusesIsAvoided) {
  EXPECT_EQ(tries({host("b", {rail(1, 2), rail(3, 2)}), host("d", {rail(3, 4), rail(2, 4)}),
                   host("e", {rail(3, 5), rail(2, 5)})},
                  "d", 3),
            " b and d b and e b and e");
}

TEST_F(FailingHosts, AllOfARouteAreAvoidedWhereNobodyKnowsWhichFailed) {
  knows_who_ = false;
  EXPECT_EQ(tries({host("b", {rail(1, 2), rail(3, 2)}), host("d", {rail(3, 4), rail(2, 4)}),
                   host("e", {rail(1, 5), rail(4, 5)}), host("f", {rail(4, 6), rail(2, 6)})},
                  "d", 2),
            " b and d e and f");
}

TEST_F(FailingHosts, AreForgottenInTime) {
  pause_ns_ = kHostKnownNs;
  const std::vector<WireHost> hosts{host("d", {rail(1, 4), rail(2, 4)}),
                                    host("e", {rail(1, 5), rail(2, 5)})};
  EXPECT_EQ(tries(hosts, "de", 4), " d e d e");
  EXPECT_EQ(failed_.host({'d'}), 0u);
  EXPECT_EQ(failed_.host({'e'}), 1u);
}

TEST_F(RelayClientTest, WhoRefusesIsAtFault) {
  const auto chains = chains_over_b();
  EXPECT_EQ(chains->at_fault(), Id128{});
  client_.on_lost(on_b_, "gone");
  EXPECT_EQ(chains->step(), RelayedChains::Step::Broken);
  EXPECT_EQ(chains->at_fault(), b(true).ticket);
}

TEST_F(RelayClientTest, HostsAreAskedAgainSoonAndThenLessOften) {
  for (int i = 0; i < 1000; ++i) {
    EXPECT_FALSE(find());
    clock_ += kMs;
  }
  EXPECT_EQ(count(MessageType::AskPeers), 2 * 5) << "after 0, 100, 300 and 700 ms, and so on";
}

TEST_F(RelayClientTest, AHostThatOwesAnAnswerIsAskedOnceMoreAndThenTakenForLost) {
  const auto chains = chains_over_b();
  pass(900);
  EXPECT_EQ(count(MessageType::AskPeers), 0);
  pass(200);
  EXPECT_EQ(count(MessageType::AskPeers), 1);
  EXPECT_EQ(chains->step(), RelayedChains::Step::Asked);
  pass(1000);
  EXPECT_EQ(chains->step(), RelayedChains::Step::Broken);
  EXPECT_EQ(chains->why(), "host b: it has not answered for 2000 ms");
  EXPECT_EQ(us_.wire.closed, std::vector<ConnectionId>{on_b_});
  EXPECT_FALSE(client_.owns(on_b_));
}

TEST_F(RelayClientTest, AHostWhoseDeviceTakesItsTimeIsWaitedFor) {
  const auto chains = chains_over_b();
  for (int second = 0; second < 10; ++second) {
    pass(1100);
    hear(on_b_, {.host = {b(true)}});
  }
  EXPECT_EQ(chains->step(), RelayedChains::Step::Asked);
  EXPECT_TRUE(client_.owns(on_b_));
}

TEST_F(RelayClientTest, AHostIsDialedWhereItIsKnownToBeNow) {
  ASSERT_FALSE(find());
  WireHost d = host("d", {rail(7, 4)});
  const SocketAddress from_b = *SocketAddress::from_text("127.0.0.3");
  const SocketAddress of_a_link = *SocketAddress::from_text("127.0.0.4");
  d.addresses = {from_b};
  hear(connection_to("b"), {.host = {d}});
  clock_ += 1000 * kMs;
  EXPECT_FALSE(find());
  EXPECT_EQ(us_.wire.dialed.back(), std::vector{from_b});
  client_.on_lost(connection_to("d"), "refused");
  d.addresses = {of_a_link};
  peers_.push_back(d);
  clock_ += 1000 * kMs;
  EXPECT_FALSE(find());
  EXPECT_EQ(us_.wire.dialed.back(), (std::vector{of_a_link, from_b}));
}

TEST_F(RelayClientTest, HostsThatNobodyKnowsAnyMoreAreForgotten) {
  ASSERT_FALSE(find());
  hear(connection_to("b"), {.host = {host("d", {rail(7, 4)})}});
  peers_ = {host("c", {rail(2, 3)}), host("e", {rail(8, 5)})};
  pass(6000);  // nobody needs the connections
  EXPECT_EQ(us_.wire.closed.size(), 2u);
  EXPECT_FALSE(find());  // e is new
  peers_ = {host("c", {rail(2, 3)})};
  EXPECT_FALSE(client_.knows_others({'c'}));
}

}  // namespace
}  // namespace mesh::engine

// Routes over hosts whose cables addresses do not tell: the ports of all hosts share one subnet.
#include "engine/link/relay/known_cables.h"
#include "engine/link/relay/relay_client.h"
#include "engine/link/relay/routes.h"
#include "src/soft/fabric_file.h"
#include "tests/prelude.h"
#include "tests/unit/engine/link/fake_host.h"
#include "tests/unit/engine/units.h"

namespace mesh::engine {
namespace {

using Pairs = std::vector<topo::WirePair>;

const Pairs kAll{{0, 0}, {0, 1}, {1, 0}, {1, 1}};
const std::vector<WireCables> kNextOne = told_cables({.asked = kAll, .met = {{1, 0}}});
const std::vector<WireCables> kOneBefore = told_cables({.asked = kAll, .met = {{0, 1}}});
const std::vector<WireCables> kSilent = told_cables({.asked = kAll, .met = {}});

std::vector<WireRail> two_rails(std::uint8_t host) {
  std::vector<WireRail> rails(2);
  for (std::uint8_t port = 0; port < 2; ++port) {
    rails[port].addresses = {{.gid = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 169, 254, host,
                                      static_cast<std::uint8_t>(1 + port)},
                              .prefix_len = 16}};
    rails[port].mtu = 5;
  }
  return rails;
}

// A host of a ring a-b-c-d, in which each host's port 1 is cabled to port 0 of the next one.
WireHost host(char name, std::vector<WireCables> cables = {}) {
  return {.ticket = {static_cast<std::uint8_t>(name)},
          .name = {name},
          .port = 4711,
          .addresses = {*SocketAddress::from_text("127.0.0.2")},
          .rails = two_rails(static_cast<std::uint8_t>(name)),
          .cables = std::move(cables)};
}

// Returns our port, those of the hosts between and the peer's, in the order of the route.
std::string ports(const std::optional<RelayRoute>& route) {
  if (!route) return "none";
  std::string text = fmt::format("{}", route->own_rail);
  for (const RouteHop& hop : route->hops)
    text += fmt::format(" {}:{}-{}", hop.host.name, hop.near_rail, hop.far_rail);
  return text + fmt::format(" {}", route->peer_rail);
}

// We are host a, and c is the peer.
class ProvenRoutes : public testing::Test {
 protected:
  std::string find(Unproven unproven, HostsBetween between = {}) const {
    return ports(find_route({.own = own_,
                             .peer = peer_,
                             .hosts = hosts_,
                             .between = between,
                             .cables = &cables_,
                             .unproven = unproven}));
  }
  void note(char from, char to, const std::vector<WireCables>& told) {
    cables_.note({static_cast<std::uint8_t>(from)}, {static_cast<std::uint8_t>(to)}, told);
  }

  const std::vector<WireRail> own_ = two_rails('a'), peer_ = two_rails('c');
  const std::vector<WireHost> hosts_{host('b'), host('d')};
  KnownCables cables_{{'a'}, {'c'}};
};

TEST_F(ProvenRoutes, LeadOverCablesThatDatagramsHaveTold) {
  note('a', 'b', kNextOne);
  note('b', 'c', kNextOne);
  EXPECT_EQ(find(Unproven::LeftOut), "1 b:0-1 0");
  KnownCables from_the_other_ends({'a'}, {'c'});
  from_the_other_ends.note({'b'}, {'a'}, kOneBefore);
  from_the_other_ends.note({'c'}, {'b'}, kOneBefore);
  cables_ = from_the_other_ends;
  EXPECT_EQ(find(Unproven::LeftOut), "1 b:0-1 0");
}

TEST_F(ProvenRoutes, LeadNeverOverPortsThatDoNotAnswer) {
  note('a', 'b', kNextOne);
  note('b', 'c', kSilent);
  note('a', 'd', kOneBefore);
  note('d', 'c', kSilent);
  note('b', 'd', kSilent);
  EXPECT_EQ(find(Unproven::LeftOut), "none");
  EXPECT_EQ(find(Unproven::ByPlace), "none");
}

// The places of a and b, and of b and c, would let a's port 0 meet b's port 0. But a's port 0 is on
// a cable to d.
TEST_F(ProvenRoutes, LeadOverNoPortThatIsOnACableToAThirdHost) {
  cables_.note({'a'}, {'d'}, told_cables({.asked = {{0, 1}}, .met = {{0, 1}}}));
  cables_.note({'d'}, {'c'}, told_cables({.asked = {{0, 1}}, .met = {{0, 1}}}));
  EXPECT_FALSE(cables_.is_elsewhere({}, {'d'}, {.local = 0, .peer = 1}));
  EXPECT_TRUE(cables_.is_elsewhere({}, {'b'}, {.local = 0, .peer = 0}));
  EXPECT_TRUE(cables_.is_elsewhere({'b'}, {}, {.local = 0, .peer = 1}));
  EXPECT_FALSE(cables_.is_elsewhere({}, {'b'}, {.local = 1, .peer = 0}));
  note('b', 'd', told_cables({.asked = {{0, 1}}, .met = {{0, 1}}}));
  EXPECT_FALSE(cables_.is_elsewhere({}, {'b'}, {.local = 0, .peer = 0})) << "a switch";
}

// Firewalls drop all datagrams.
TEST_F(ProvenRoutes, LeadOverPortsByTheirPlaceIfNobodysDatagramsAreAnswered) {
  note('a', 'b', kSilent);
  note('b', 'c', kSilent);
  EXPECT_EQ(find(Unproven::LeftOut), "none");
  EXPECT_EQ(find(Unproven::ByPlace, {.least = 1, .most = 1}), "0 b:0-0 0");
}

TEST_F(ProvenRoutes, LeadOverPortsByTheirPlaceOnlyIfAsked) {
  note('a', 'b', kNextOne);
  note('a', 'd', kSilent);
  EXPECT_EQ(find(Unproven::LeftOut), "none") << "nobody has told how b is cabled to c";
  EXPECT_EQ(find(Unproven::ByPlace, {.least = 1, .most = 1}), "1 b:0-0 0");
}

TEST_F(ProvenRoutes, NoAnswersTellLessThanAny) {
  note('a', 'b', kNextOne);
  note('b', 'c', kNextOne);
  note('c', 'b', kSilent);
  note('b', 'c', {});
  EXPECT_EQ(find(Unproven::LeftOut), "1 b:0-1 0");
  note('b', 'c', kOneBefore);
  EXPECT_EQ(find(Unproven::LeftOut), "1 b:0-0 1") << "the cable was moved";
}

TEST(ToldCables, AreHeardAsTheyWere) {
  const topo::CableProof proof{.asked = {{0, 63}, {3, 1}, {3, 2}, {63, 0}}, .met = {{3, 2}}};
  EXPECT_EQ(heard_cables(told_cables(proof)), proof);
  EXPECT_EQ(topo::turned(proof).met, (Pairs{{2, 3}}));
}

// The first search has only our own links to go by.
TEST(ProvenRoutesOfAClient, WaitForWhatTheHostsBetweenTell) {
  std::atomic<std::uint64_t> clock{1'000'000'000};
  testkit::FakeHost us{soft::parse(testkit::kLine).value(), "a", clock};
  std::vector<WireHost> peers{host('b', kNextOne), host('c', kSilent)};
  RelayClient client(us, [&peers] { return peers; });
  const std::vector<WireRail> own = two_rails('a'), peer = two_rails('c');
  const auto find = [&] {
    return ports(client.search({.own = own, .peer = peer, .hosts = {}}, {.peer = {'c'}}).route);
  };
  EXPECT_EQ(find(), "none");
  const auto all_said = us.wire.said;
  for (const auto& said : all_said) {
    AskPeers ask;
    if (!decode_into(std::span(said.frame).subspan(kFrameHeaderBytes), &ask)) continue;
    const bool is_b = ask.ticket == Id128{'b'};
    const Bytes answer = encode(
        FrameHeader{}, PeersAre{.left = 0, .host = {is_b ? host('c', kNextOne) : host('d')}});
    EXPECT_TRUE(client.on_frame(said.connection, {.type = MessageType::PeersAre},
                                std::span(answer).subspan(kFrameHeaderBytes)));
  }
  EXPECT_EQ(find(), "1 b:0-1 0");
}

}  // namespace
}  // namespace mesh::engine

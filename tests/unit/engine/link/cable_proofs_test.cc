// Datagrams tell the ports of two hosts that are on one wire: straight and crossed cables, silence,
// forged answers, and what is remembered.
#include "engine/link/cable_proofs.h"

#include "engine/link/acceptance.h"
#include "engine/link/cable_message.h"
#include "engine/link/link_setup.h"
#include "engine/link/path_choice.h"
#include "src/base/byte_order.h"
#include "src/base/clock.h"
#include "src/base/random.h"
#include "src/base/timeouts.h"
#include "src/soft/datagrams.h"
#include "src/soft/fabric_file.h"
#include "tests/unit/engine/link/fake_host.h"
#include "tests/unit/engine/link/ipv4_ends.h"

#include <malloc.h>

namespace mesh::engine {
namespace {

using testkit::FakeHost;

using Wires = std::vector<topo::WirePair>;

// Hosts a, b and c with two ports each, all in one subnet. `at_b`: more fields of b's first port.
std::string fabric_of(const std::string& links, const std::string& at_b = "") {
  std::string hosts;
  for (int host = 0; host < 3; ++host) {
    const char name = static_cast<char>('a' + host);
    hosts += fmt::format(
        R"({}{{"name": "{}", "nics": [{{"name": "n0", "address": "10.0.0.{}/24"{}}},
           {{"name": "n1", "address": "10.0.0.{}/24"}}]}})",
        host == 0 ? "" : ", ", name, 2 * host + 1, name == 'b' ? at_b : "", 2 * host + 2);
  }
  return fmt::format(R"({{"name": "wires", "hosts": [{}], "links": [{}]}})", hosts, links);
}
constexpr const char* kStraight = R"({"ends": ["a/n0", "b/n0"]}, {"ends": ["a/n1", "b/n1"]})";
constexpr const char* kCrossed = R"({"ends": ["a/n0", "b/n1"]}, {"ends": ["a/n1", "b/n0"]})";
constexpr const char* kTriangle =
    R"({"ends": ["a/n0", "b/n1"]}, {"ends": ["b/n0", "c/n1"]}, {"ends": ["c/n0", "a/n1"]})";
constexpr const char* kSwitch = R"({"switch": ["a/n0", "a/n1", "b/n0", "b/n1"]})";

// Host a says HELLO to host b, which asks over its ports where the cables lead. Host c is there for
// triangles.
struct CableHosts {
  explicit CableHosts(const std::string& text)
      : fabric(soft::parse(text).value()), a(fabric, "a", clock), b(fabric, "b", clock) {}

  Hello hello() {
    Hello said;
    said.host = "a";
    said.rails = describe_rails(*a.provider, a.rails());
    said.proof = of_a.offer();
    return said;
  }
  DoubtfulRails doubtful(const Hello& said) {
    return doubtful_rails(said, {describe_rails(*b.provider, b.rails())});
  }
  std::unique_ptr<CableProofs::Question> ask(const Hello& said) {
    return of_b.ask(said, doubtful(said));
  }
  static void hear(CableProofs& proofs) {
    for (int fd = 0; fd < 1024; ++fd)
      if (proofs.owns(fd)) proofs.on_readable(fd);
  }
  // Takes the datagrams of the first port only, as if the process were stopped after it.
  static void hear_first(CableProofs& proofs) {
    for (int fd = 0; fd < 1024; ++fd)
      if (proofs.owns(fd)) return proofs.on_readable(fd);
  }
  // Sends what is due and carries it there and back. Returns false if the question is over.
  bool turn(CableProofs::Question& question) {
    const bool goes_on = question.tend(clock.load());
    hear(of_a);
    hear(of_b);
    return goes_on;
  }
  // Asks until the question is over. Returns the time that it took.
  std::uint64_t finish(CableProofs::Question& question) {
    const std::uint64_t from_ns = clock.load();
    while (turn(question)) clock.fetch_add(kNsPerMs);
    return clock.load() - from_ns;
  }

  std::atomic<std::uint64_t> clock{kNsPerSecond};
  soft::FabricFile fabric;
  FakeHost a, b;
  CableProofs of_a{a}, of_b{b};
};

Wires sorted(Wires wires) {
  std::sort(wires.begin(), wires.end());
  return wires;
}

TEST(CableProofs, StraightCablesAreFoundAtOnce) {
  CableHosts hosts(fabric_of(kStraight));
  const Hello said = hosts.hello();
  const auto question = hosts.ask(said);
  ASSERT_NE(question, nullptr);
  EXPECT_LE(hosts.finish(*question), kNsPerMs);
  EXPECT_EQ(sorted(question->proof().met), (Wires{{0, 0}, {1, 1}}));
}

TEST(CableProofs, CrossedCablesAreFoundWithoutTheWholeWait) {
  CableHosts hosts(fabric_of(kCrossed));
  const auto question = hosts.ask(hosts.hello());
  EXPECT_LE(hosts.finish(*question), kProofToSettledNs + kNsPerMs);
  EXPECT_EQ(sorted(question->proof().met), (Wires{{0, 1}, {1, 0}}));
}

TEST(CableProofs, InATriangleOneCableIsFound) {
  CableHosts hosts(fabric_of(kTriangle));
  const auto question = hosts.ask(hosts.hello());
  EXPECT_LE(hosts.finish(*question), kProofToSettledNs + kNsPerMs);
  EXPECT_EQ(question->proof().met, (Wires{{0, 1}}));
  EXPECT_EQ(question->proof().asked.size(), 4u);
}

TEST(CableProofs, OnASwitchAllPortsMeet) {
  CableHosts hosts(fabric_of(kSwitch));
  const auto question = hosts.ask(hosts.hello());
  EXPECT_LE(hosts.finish(*question), kNsPerMs);
  EXPECT_EQ(question->proof().met.size(), 4u);
}

// Its other port answers when it goes on: no port is left out, and none is taken for one-way.
TEST(CableProofs, AConnectorThatIsStoppedBetweenTwoOfItsPortsIsWaitedFor) {
  CableHosts hosts(fabric_of(kCrossed));
  const Hello said = hosts.hello();
  const auto question = hosts.ask(said);
  for (int asked_times = 0; asked_times < 8; ++asked_times) {
    ASSERT_TRUE(question->tend(hosts.clock.load()));
    hosts.clock.fetch_add(kProofToAskAgainNs);
  }
  CableHosts::hear_first(hosts.of_a);  // several questions at once
  CableHosts::hear(hosts.of_b);
  ASSERT_EQ(question->proof().met.size(), 1u);
  for (std::uint64_t waited_ns = 0; waited_ns < 4 * kProofToSettledNs; waited_ns += kNsPerMs) {
    hosts.clock.fetch_add(kNsPerMs);
    ASSERT_TRUE(question->tend(hosts.clock.load())) << waited_ns << " ns after the first answer";
  }
  EXPECT_LE(hosts.finish(*question), kProofToSettledNs);
  EXPECT_EQ(sorted(question->proof().met), (Wires{{0, 1}, {1, 0}}));
  EXPECT_EQ(hosts.of_a.one_way(said.proof.ask, question->proof()), Wires{});
}

// The cable that answered first is cut then.
TEST(CableProofs, AConnectorThatAnswersOnceIsWaitedForThreeSeconds) {
  CableHosts hosts(fabric_of(kTriangle));
  const auto question = hosts.ask(hosts.hello());
  hosts.turn(*question);
  ASSERT_EQ(question->proof().met, (Wires{{0, 1}}));
  while (question->tend(hosts.clock.load())) hosts.clock.fetch_add(kNsPerMs);
  EXPECT_EQ(hosts.clock.load() - kNsPerSecond, kProofOfDownToPlaceNs);
  EXPECT_EQ(question->proof().met, (Wires{{0, 1}}));
}

TEST(CableProofs, AddressesThatLeaveNoChoiceAskNothing) {
  const std::string text = R"({"name": "own", "hosts": [
      {"name": "a", "nics": [{"name": "n0", "address": "10.0.1.1/24"},
                             {"name": "n1", "address": "10.0.2.1/24"}]},
      {"name": "b", "nics": [{"name": "n0", "address": "10.0.1.2/24"},
                             {"name": "n1", "address": "10.0.2.2/24"}]}],
      "links": [{"ends": ["a/n0", "b/n0"]}, {"ends": ["a/n1", "b/n1"]}]})";
  CableHosts hosts(text);
  EXPECT_EQ(hosts.ask(hosts.hello()), nullptr);
  for (int fd = 0; fd < 1024; ++fd) EXPECT_FALSE(hosts.of_b.owns(fd));
}

// The connector does not know that the other host has two ports in the subnet.
TEST(CableProofs, AHostWithOnePortIsAsked) {
  const std::string text = R"({"name": "leaf", "hosts": [
      {"name": "a", "nics": [{"name": "n0", "address": "10.0.0.1/24"}]},
      {"name": "b", "nics": [{"name": "n0", "address": "10.0.0.2/24"},
                             {"name": "n1", "address": "10.0.0.3/24"}]},
      {"name": "c", "nics": [{"name": "n0", "address": "10.0.0.4/24"}]}],
      "links": [{"ends": ["a/n0", "b/n1"]}, {"ends": ["b/n0", "c/n0"]}]})";
  CableHosts hosts(text);
  const auto question = hosts.ask(hosts.hello());
  hosts.finish(*question);
  EXPECT_EQ(question->proof().met, (Wires{{0, 1}}));
}

TEST(CableProofs, APortWithoutANetDeviceIsNotAsked) {
  CableHosts hosts(fabric_of(kStraight, R"(, "netdev": false)"));
  const auto question = hosts.ask(hosts.hello());
  EXPECT_EQ(question->proof().asked, (Wires{{0, 1}, {1, 1}}));
  CableHosts none(fabric_of(kStraight));
  Hello said = none.hello();
  for (WirePlace& place : said.proof.places) place.port = 0;
  EXPECT_EQ(none.ask(said), nullptr);
}

// One port of b has no IPv6 address, and speaks IPv4 with ports that have both.
TEST(CableProofs, APortWithoutIpv6IsAskedByIpv4) {
  CableHosts hosts(fabric_of(kCrossed, R"(, "ipv6": false)"));
  const auto question = hosts.ask(hosts.hello());
  ASSERT_NE(question, nullptr);
  EXPECT_EQ(question->proof().asked.size(), 4u);
  EXPECT_LE(hosts.finish(*question), kProofToSettledNs + kNsPerMs);
  EXPECT_EQ(sorted(question->proof().met), (Wires{{0, 1}, {1, 0}}));
}

TEST(CableProofs, APlaceWithoutAnAddressOfTheAskersFamiliesIsNotAsked) {
  CableHosts hosts(fabric_of(kStraight, R"(, "ipv6": false)"));
  Hello said = hosts.hello();
  for (WirePlace& place : said.proof.places) place.ipv4 = {};
  EXPECT_EQ(hosts.ask(said)->proof().asked, (Wires{{0, 1}, {1, 1}}));
}

// The kernel tests an IPv6 address for duplicates, and no event of the device tells the end of it.
TEST(CableProofs, AnAddressThatBecomesValidIsTold) {
  CableHosts hosts(fabric_of(kStraight));
  testkit::Ipv4Provider late(*hosts.a.provider);
  hosts.a.settled.provider = &late;
  const auto address_told = [&hosts] { return hosts.hello().proof.places[0].address; };
  EXPECT_EQ(address_told(), WirePlace{}.address);
  EXPECT_NE(hosts.ask(hosts.hello()), nullptr) << "by IPv4 meanwhile";
  late.has_ipv6 = true;
  EXPECT_EQ(address_told(), WirePlace{}.address) << "addresses are not read for each HELLO";
  hosts.clock.fetch_add(kEndToReadAgainNs);
  EXPECT_NE(address_told(), WirePlace{}.address);
  late.has_ipv6 = false;
  hosts.of_a.doubt();
  EXPECT_EQ(address_told(), WirePlace{}.address) << "an event of a port is a reason to read";
}

// A firewall drops the questions of one side over a cable. The other side's questions pass.
TEST(CableProofs, ACableThatWasFoundInTheOtherDirectionIsOne) {
  CableHosts hosts(fabric_of(kStraight, R"(, "firewall": true)"));
  Hello said = hosts.hello();
  said.ticket = {1};
  const auto silent = hosts.ask(said);
  hosts.finish(*silent);
  EXPECT_EQ(hosts.of_b.conclude(said, *silent).met, (Wires{{1, 1}}));
  const std::uint64_t news = hosts.of_b.met_news();
  hosts.of_b.note_met({1}, Wires{{0, 0}, {1, 1}});
  EXPECT_EQ(hosts.of_b.met_news(), news + 1) << "one of them was known";
  const auto again = hosts.ask(said);
  hosts.finish(*again);
  EXPECT_EQ(sorted(hosts.of_b.conclude(said, *again).met), (Wires{{0, 0}, {1, 1}}));
  said.ticket = {2};
  EXPECT_TRUE(hosts.of_b.met_with(said.ticket).empty()) << "another process";
  hosts.of_b.doubt();
  EXPECT_TRUE(hosts.of_b.met_with({1}).empty()) << "a cable may have moved";
}

// A container that does not see the net device waits for nobody.
TEST(CableProofs, NothingIsAwaitedOverAPortThatCannotAsk) {
  CableHosts hosts(fabric_of(R"({"ends": ["a/n0", "b/n0"]})", R"(, "netdev": false)"));
  const Hello said = hosts.hello();
  EXPECT_EQ(hosts.of_b.ask(said, {.up = {{0, 0}}, .down = {{1, 0}}}), nullptr);
}

// Questions arrive and answers do not: the cable answers in one direction only.
TEST(CableProofs, ACableThatCarriesOneDirectionIsSilentUntilTheTimeIsUp) {
  CableHosts hosts(fabric_of(R"({"ends": ["a/n0", "b/n0"]})", R"(, "firewall": true)"));
  Hello said = hosts.hello();
  const auto question = hosts.of_b.ask(said, {.up = {{0, 0}}, .down = {}});
  EXPECT_EQ(hosts.finish(*question), kProofToPlaceNs);
  EXPECT_EQ(question->proof().met, Wires{});
  EXPECT_EQ(hosts.of_a.ignored(), 0u) << "they were answered";
  EXPECT_EQ(hosts.of_a.one_way(said.proof.ask, topo::turned(question->proof())), (Wires{{0, 0}}));
  EXPECT_EQ(hosts.of_a.one_way(said.proof.answer, topo::turned(question->proof())), Wires{});
}

// The one beside it answers, so the silent one is waited for no longer than others.
TEST(CableProofs, TheConnectorKnowsACableThatCarriesOneDirection) {
  CableHosts hosts(fabric_of(kCrossed, R"(, "firewall": true)"));
  const Hello said = hosts.hello();
  const auto question = hosts.ask(said);
  EXPECT_LE(hosts.finish(*question), kProofToSettledNs + kNsPerMs);
  EXPECT_EQ(question->proof().met, (Wires{{0, 1}}));
  EXPECT_EQ(hosts.of_a.one_way(said.proof.ask, question->proof()), (Wires{{1, 0}}));
  hosts.of_a.withdraw(said.proof.ask);
  EXPECT_EQ(hosts.of_a.one_way(said.proof.ask, question->proof()), Wires{});
}

TEST(CableProofs, CablesThatAnswerAndPortsThatAreOnNoneAreNoCablesOfOneDirection) {
  for (const char* const links : {kStraight, kCrossed, kTriangle}) {
    CableHosts hosts(fabric_of(links));
    const Hello said = hosts.hello();
    const auto question = hosts.ask(said);
    hosts.finish(*question);
    EXPECT_EQ(hosts.of_a.one_way(said.proof.ask, question->proof()), Wires{}) << links;
  }
}

// All that HELLO tells of two clones is alike, but not the id of the host or, if it has none, the
// port of the process.
TEST(CableProofs, WhatIsKnownOfOneHostIsKnownOfItsProcessesAndNotOfItsClone) {
  CableHosts hosts(fabric_of(kCrossed));
  Hello said = hosts.hello();
  said.host_id = 1;
  said.control_port = 4711;
  const auto question = hosts.ask(said);
  hosts.finish(*question);
  hosts.of_b.conclude(said, *question);
  EXPECT_NE(hosts.of_b.known(said, hosts.doubtful(said).up), nullptr);
  const auto knows = [&hosts](std::uint64_t host_id, std::uint16_t port, Hello hello) {
    hello.host_id = host_id;
    hello.control_port = port;
    const bool former = hosts.of_b.former(hello) != nullptr;
    EXPECT_EQ(hosts.of_b.known(hello, hosts.doubtful(hello).up) != nullptr, former);
    return former;
  };
  EXPECT_TRUE(knows(1, 4712, said)) << "another process";
  EXPECT_FALSE(knows(2, 4711, said)) << "a clone";
  EXPECT_TRUE(knows(0, 4711, said));
  EXPECT_FALSE(knows(0, 4712, said)) << "a clone, or another process";
}

// Both ends of the only cable are up again while their hosts shake hands.
TEST(CableProofs, APortThatIsDownAnswersWhenItIsUp) {
  CableHosts hosts(fabric_of(kTriangle));
  const Hello said = hosts.hello();
  const auto question = hosts.of_b.ask(said, {.up = {{0, 0}}, .down = {{0, 1}, {1, 1}}});
  EXPECT_LE(hosts.finish(*question), kProofToSettledNs + kNsPerMs);
  EXPECT_EQ(question->proof().met, (Wires{{0, 1}}));
  EXPECT_EQ(question->proof().asked, (Wires{{0, 0}, {0, 1}}));
}

TEST(CableProofs, PortsThatAreAllDownAreAskedToo) {
  CableHosts hosts(fabric_of(kTriangle));
  const Hello said = hosts.hello();
  const auto question = hosts.of_b.ask(said, {.up = {}, .down = {{0, 1}}});
  hosts.finish(*question);
  EXPECT_EQ(question->proof().met, (Wires{{0, 1}}));
  const auto silent = hosts.of_b.ask(said, {.up = {}, .down = {{1, 0}}});
  EXPECT_EQ(hosts.finish(*silent), kProofOfDownToPlaceNs);
  EXPECT_EQ(hosts.of_b.conclude(hosts.hello(), *silent), topo::CableProof{});
}

TEST(CableProofs, APortThatStaysDownIsWaitedForAndNotTakenForSilent) {
  CableHosts hosts(fabric_of(kTriangle));
  const Hello said = hosts.hello();
  const auto question = hosts.of_b.ask(said, {.up = {{0, 0}}, .down = {{1, 0}}});
  EXPECT_EQ(hosts.finish(*question), kProofOfDownToPlaceNs);
  EXPECT_EQ(question->proof().asked, (Wires{{0, 0}}));
}

// b's plugs change places after the first answer.
TEST(CableProofs, ACableThatMovesWhileItIsAskedForIsFoundWhereItIsThen) {
  CableHosts hosts(fabric_of(kTriangle));
  const Hello said = hosts.hello();
  const auto question = hosts.ask(said);
  hosts.turn(*question);
  ASSERT_EQ(question->proof().met, (Wires{{0, 1}}));
  for (testkit::FakeHost* const host : {&hosts.a, &hosts.b})
    host->provider->swap_plugs({1, 0}, {1, 1});
  hosts.clock.fetch_add(kProofToSettledNs / 2);
  hosts.of_b.doubt();
  EXPECT_EQ(hosts.b.asked_soon, 2) << "for the answer, and for the port";
  ASSERT_TRUE(keep_asking(hosts.b, said, *question));
  hosts.finish(*question);
  EXPECT_EQ(question->proof().met, (Wires{{0, 0}}));
  hosts.of_b.conclude(said, *question);
  EXPECT_NE(hosts.of_b.known(said, hosts.doubtful(said).up), nullptr);
}

TEST(CableProofs, APortThatKeepsChangingDelaysNoHandshakeForLongAndNothingIsRemembered) {
  CableHosts hosts(fabric_of(kTriangle));
  const Hello said = hosts.hello();
  const auto question = hosts.ask(said);
  const std::uint64_t from_ns = hosts.clock.load();
  while (keep_asking(hosts.b, said, *question)) {
    hosts.turn(*question);
    hosts.clock.fetch_add(kProofToSettledNs / 2);
    hosts.of_b.doubt();
  }
  EXPECT_EQ(hosts.clock.load() - from_ns, kProofOfDownToPlaceNs);
  hosts.of_b.conclude(said, *question);
  EXPECT_EQ(hosts.of_b.known(said, hosts.doubtful(said).up), nullptr);
  EXPECT_NE(hosts.of_b.former(said), nullptr);
}

TEST(CableProofs, TwoAnswersForOnePairMeetOnce) {
  CableHosts hosts(fabric_of(kTriangle));
  const auto question = hosts.ask(hosts.hello());
  ASSERT_TRUE(question->tend(hosts.clock.load()));
  hosts.clock.fetch_add(kProofToAskAgainNs);
  ASSERT_TRUE(question->tend(hosts.clock.load()));
  hosts.turn(*question);
  EXPECT_EQ(question->proof().met, (Wires{{0, 1}}));
}

TEST(CableProofs, ALateAnswerIsIgnored) {
  CableHosts hosts(fabric_of(kTriangle));
  auto question = hosts.ask(hosts.hello());
  ASSERT_TRUE(question->tend(hosts.clock.load()));
  CableHosts::hear(hosts.of_a);
  question.reset();
  CableHosts::hear(hosts.of_b);
  EXPECT_EQ(hosts.of_b.ignored(), 1u);
}

TEST(CableProofs, AnOfferEndsWithItsHandshake) {
  CableHosts hosts(fabric_of(kTriangle));
  const Hello said = hosts.hello();
  const auto question = hosts.ask(said);
  hosts.of_a.withdraw(said.proof.ask);
  hosts.turn(*question);
  EXPECT_EQ(question->proof().met, Wires{});
  EXPECT_EQ(hosts.of_a.ignored(), 1u);
}

TEST(CableProofs, TheOldestOfTooManyOffersIsForgotten) {
  CableHosts hosts(fabric_of(kTriangle));
  const auto first = hosts.ask(hosts.hello());
  for (std::size_t i = 0; i < CableProofs::kOffersMax; ++i) hosts.hello();
  hosts.turn(*first);
  EXPECT_EQ(first->proof().met, Wires{});
}

// A port that is down answers nothing. Its cable is most likely where it was, and its place in the
// order of ports says less.
TEST(CableProofs, PortsThatAreSilentNowAreOnTheWireThatWasFoundEarlier) {
  CableHosts hosts(fabric_of(kCrossed));
  const Hello said = hosts.hello();
  const auto first = hosts.ask(said);
  hosts.finish(*first);
  hosts.of_b.conclude(said, *first);
  hosts.of_b.doubt();
  const auto again = hosts.of_b.ask(hosts.hello(), {.up = {{0, 1}}, .down = {}});
  while (again->tend(hosts.clock.load())) hosts.clock.fetch_add(kNsPerMs);  // nobody hears it
  EXPECT_EQ(again->proof().met, Wires{});
  const topo::CableProof found = hosts.of_b.conclude(said, *again);
  EXPECT_EQ(sorted(found.met), (Wires{{0, 1}, {1, 0}}));
  EXPECT_EQ(found.asked.size(), 4u) << "the ports of these wires meet no others";
  ASSERT_NE(hosts.of_b.former(said), nullptr);
  EXPECT_EQ(*hosts.of_b.former(said), found);
}

TEST(CableProofs, WhatWasFoundIsRememberedUntilAPortChanges) {
  CableHosts hosts(fabric_of(kTriangle));
  Hello said = hosts.hello();
  const auto question = hosts.ask(said);
  hosts.finish(*question);
  EXPECT_EQ(hosts.of_b.known(said, hosts.doubtful(said).up), nullptr);
  hosts.of_b.conclude(said, *question);
  said = hosts.hello();
  const topo::CableProof* const known = hosts.of_b.known(said, hosts.doubtful(said).up);
  ASSERT_NE(known, nullptr);
  EXPECT_EQ(*known, question->proof());
  EXPECT_EQ(hosts.of_b.known(said, Wires{{0, 0}, {0, 1}}), nullptr) << "other ports are up";
  Hello replaced = said;
  replaced.proof.places[0].address[15] ^= 1;
  EXPECT_EQ(hosts.of_b.known(replaced, hosts.doubtful(said).up), nullptr) << "another net device";
  hosts.of_b.doubt();
  EXPECT_EQ(hosts.of_b.known(said, hosts.doubtful(said).up), nullptr);
}

TEST(CableProofs, SilenceIsAskedAgainAfterAMinute) {
  CableHosts hosts(fabric_of(R"({"ends": ["a/n0", "b/n0"]})", R"(, "firewall": true)"));
  const Hello said = hosts.hello();
  const Wires pairs{{0, 0}};
  const auto question = hosts.of_b.ask(said, {.up = pairs, .down = {}});
  hosts.finish(*question);
  hosts.of_b.conclude(said, *question);
  EXPECT_NE(hosts.of_b.known(said, pairs), nullptr);
  hosts.clock.fetch_add(kHostKnownNs);
  EXPECT_EQ(hosts.of_b.known(said, pairs), nullptr);
}

// Datagrams of a neighbour that knows no nonce, or has only heard a question: they prove nothing.

// Host c is cabled to both, and sends what it likes to the places that it may know.
struct Forger {
  explicit Forger(CableHosts& hosts) : c(hosts.fabric, "c", hosts.clock) {
    for (const verbs::Rail& rail : c.rails())
      ends.push_back(c.provider->open_datagrams(rail.context.get(), rail.gids.front(),
                                                verbs::DatagramEnd::Port));
  }
  // A datagram as the engine makes them, from each port of c.
  void send(const WirePlace& to, std::uint8_t kind, const Id128& nonce) {
    std::array<std::byte, CableMessage::kBytes> bytes;
    ByteWriter writer(bytes);
    writer.put_u32(CableMessage::kMagic);
    writer.put_u8(kind);
    writer.put_u8(0);
    writer.put_u8(0);
    writer.put_bytes(std::as_bytes(std::span(nonce)));
    for (const auto& end : ends) end->send(place_of(to), bytes);
  }
  FakeHost c;
  std::vector<std::unique_ptr<verbs::CableDatagrams>> ends;
};

TEST(CableForgery, ForgedAnswersAreCountedAndProveNothing) {
  CableHosts hosts(fabric_of(kTriangle));
  Forger forger(hosts);
  const Hello said = hosts.hello();
  Hello other;  // b's own HELLO tells its places, to whoever is its acceptor
  other.proof = hosts.of_b.offer();
  const auto question = hosts.ask(said);
  ASSERT_TRUE(question->tend(hosts.clock.load()));
  constexpr std::uint8_t kAnswer = 2;
  forger.send(other.proof.places[0], kAnswer, random_id());
  forger.send(other.proof.places[0], kAnswer, said.proof.ask);  // it has heard the question
  forger.send(other.proof.places[0], 7, said.proof.answer);
  forger.ends[1]->send(place_of(other.proof.places[0]), {});
  CableHosts::hear(hosts.of_b);
  EXPECT_EQ(hosts.of_b.ignored(), 4u);
  EXPECT_EQ(question->proof().met, Wires{});
}

TEST(CableForgery, AQuestionOfNobodysHandshakeGetsNoAnswer) {
  CableHosts hosts(fabric_of(kTriangle));
  Forger forger(hosts);
  const Hello said = hosts.hello();
  constexpr std::uint8_t kQuestion = 1;
  for (int i = 0; i < 1000; ++i) forger.send(said.proof.places[1], kQuestion, random_id());
  for (int pass = 0; pass < 100; ++pass) CableHosts::hear(hosts.of_a);
  EXPECT_EQ(hosts.of_a.ignored(), soft::kDatagramsMax) << "the rest was lost on the way";
  for (const auto& end : forger.ends) EXPECT_FALSE(end->next().has_value());
}

// 10,000 forged questions and 10,000 forged answers a second.
TEST(CableForgery, AFloodMakesNoHandshakeSlowerAndTakesNoMemory) {
  CableHosts hosts(fabric_of(kTriangle));
  Forger forger(hosts);
  const Hello said = hosts.hello();
  const WireProof of_b = hosts.of_b.offer();
  const auto question = hosts.ask(said);
  constexpr std::uint8_t kQuestion = 1, kAnswer = 2;
  constexpr std::uint64_t kEachMs = 10;
  const auto flood_for_a_ms = [&] {
    for (std::uint64_t i = 0; i < kEachMs; ++i) {
      forger.send(said.proof.places[1], kQuestion, random_id());
      forger.send(of_b.places[0], kAnswer, random_id());
    }
    hosts.clock.fetch_add(kNsPerMs);
  };
  std::uint64_t passed_ms = 1;
  for (flood_for_a_ms(); hosts.turn(*question); ++passed_ms) flood_for_a_ms();
  EXPECT_LE(passed_ms * kNsPerMs, kProofToSettledNs + 2 * kNsPerMs);
  EXPECT_EQ(question->proof().met, (Wires{{0, 1}}));

  const auto heap_bytes = [] { return ::mallinfo2().uordblks; };
  const std::size_t before = heap_bytes();
  constexpr std::uint64_t kLongMs = 2000;
  for (std::uint64_t ms = 0; ms < kLongMs; ++ms) {
    flood_for_a_ms();
    CableHosts::hear(hosts.of_a);
    CableHosts::hear(hosts.of_b);
  }
  EXPECT_EQ(hosts.of_a.ignored(), (passed_ms + kLongMs) * kEachMs);
  EXPECT_EQ(hosts.of_b.ignored(), (passed_ms + kLongMs) * kEachMs);
  constexpr std::size_t kRoundingBytes = 4096;
  EXPECT_LE(heap_bytes(), before + kRoundingBytes);
}

}  // namespace
}  // namespace mesh::engine

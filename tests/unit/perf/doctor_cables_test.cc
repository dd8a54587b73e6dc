// The computations of mesh_doctor between hosts: the map, the checks against it, the order of the
// ranks, and the verdict on measured rates.
#include "perf/mesh_doctor/cabling.h"
#include "perf/mesh_doctor/finding.h"
#include "perf/mesh_doctor/map.h"
#include "perf/mesh_doctor/measure_cables.h"
#include "perf/mesh_doctor/measured.h"
#include "perf/mesh_doctor/rank_order.h"
#include "perf/mesh_doctor/shared_subnets.h"
#include "tests/prelude.h"

namespace mesh::doctor {
namespace {

constexpr std::uint8_t kMtu4096 = 5;

// Makes a rail with the address 10.0.net.host/24.
engine::WireRail rail_at(const std::string& name, std::uint8_t net, std::uint8_t host,
                         std::uint64_t guid) {
  engine::WireRail rail;
  engine::WireAddress address;
  address.gid = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, net, host};
  address.prefix_len = 24;
  rail.addresses = {address};
  rail.mtu = kMtu4096;
  rail.speed_mbps = 200'000;
  rail.guid = guid;
  rail.name = name + ":1";
  return rail;
}

HostRails host(const std::string& name, const std::vector<engine::WireRail>& rails) {
  HostRails made{.host = name, .site = {}, .rails = rails, .paces = {}};
  made.paces.resize(rails.size());
  made.places.resize(rails.size());
  return made;
}

Cabling found(const std::vector<HostRails>& hosts) {
  const auto no_route = [](std::size_t, std::size_t, const engine::WireAddress&) {
    return verbs::Route{verbs::RouteKind::None, {}};
  };
  std::vector<std::vector<Meeting>> meetings;
  for (std::size_t j = 0; j < hosts.size(); ++j) {
    std::vector<Meeting>& of_host = meetings.emplace_back();
    for (std::size_t i = 0; i < j; ++i) of_host.push_back(meeting_of(hosts[i], hosts[j], no_route));
  }
  return cabling_of(hosts, meetings);
}

std::vector<HostRails> triangle() {
  return {host("a", {rail_at("p0", 12, 1, 1), rail_at("p1", 13, 1, 2)}),
          host("b", {rail_at("p0", 12, 2, 3), rail_at("p1", 23, 2, 4)}),
          host("c", {rail_at("p0", 13, 3, 5), rail_at("p1", 23, 3, 6)})};
}

// Two hosts with one cable, which each host shows as two PCIe functions.
std::vector<HostRails> halves() {
  return {host("a", {rail_at("h0", 12, 1, 1), rail_at("h1", 13, 1, 1)}),
          host("b", {rail_at("h0", 12, 2, 2), rail_at("h1", 13, 2, 2)})};
}

std::vector<std::string> names(const std::vector<Finding>& findings) {
  std::vector<std::string> all;
  all.reserve(findings.size());
  for (const Finding& each : findings) all.push_back(each.name);
  return all;
}
using Names = std::vector<std::string>;

std::vector<Finding> against(const Cabling& cabling, const std::string& map) {
  std::string why;
  const auto expected = parse_map(map, why);
  EXPECT_TRUE(expected.ok()) << why;
  return compare(cabling, *expected);
}

Measured rates(std::size_t cable, std::optional<std::size_t> half, double to_b, double to_a) {
  Measured measured{.step = {cable, half}, .at_a = {}, .at_b = {}};
  measured.at_a.received_gbps = to_a;
  measured.at_b.received_gbps = to_b;
  return measured;
}

TEST(Cabling, PortsMeetBySubnetAndHalvesMakeACable) {
  const Cabling cabling = found(triangle());
  ASSERT_EQ(cabling.cables.size(), 3u);
  EXPECT_EQ(cabling.text(cabling.cables[0]), "a/p0:1 -- b/p0:1");
  EXPECT_EQ(cabling.text(cabling.cables[1]), "a/p1:1 -- c/p0:1");
  EXPECT_EQ(cabling.text(cabling.cables[2]), "b/p1:1 -- c/p1:1");
  const Cabling one = found(halves());
  ASSERT_EQ(one.cables.size(), 1u);
  EXPECT_EQ(one.cables[0].halves.size(), 2u);
  EXPECT_TRUE(look_at_map(one).empty());
  EXPECT_TRUE(lone_rails(one).empty());
}

TEST(Cabling, RailsAndMeetingsTravelAsText) {
  const HostRails before = halves()[0];
  const auto after = rails_from(to_text(before));
  ASSERT_TRUE(after.ok());
  EXPECT_EQ(after->rails[1].name, "h1:1");
  EXPECT_EQ(after->rails[1].addresses, before.rails[1].addresses);
  EXPECT_EQ(after->rails[1].guid, 1u);
  EXPECT_FALSE(rails_from("{}").ok());
  EXPECT_FALSE(rails_from(R"({"host": "a")").ok());
  const auto meetings = meetings_from(R"([[[0, 1, 5]], []])", 2);
  ASSERT_TRUE(meetings.ok());
  EXPECT_EQ((*meetings)[0][0].acceptor_rail, 1);
  EXPECT_FALSE(meetings_from("[[]]", 2).ok());
  EXPECT_FALSE(meetings_from("[[[0]], []]", 2).ok());
}

const std::vector<topo::WirePair> kAllPairs{{0, 0}, {0, 1}, {1, 0}, {1, 1}};

TEST(SharedSubnet, IsFoundForCablesAndNotForASwitch) {
  const Cabling cabling = found({host("a", {rail_at("p0", 12, 1, 1), rail_at("p1", 12, 2, 2)}),
                                 host("b", {rail_at("p0", 12, 3, 3), rail_at("p1", 12, 4, 4)})});
  const auto findings = [&cabling](const std::vector<topo::WirePair>& met) {
    return shared_subnets(cabling, {{}, {{.asked = kAllPairs, .met = met}}});
  };
  const std::vector<Finding> crossed = findings({{0, 1}, {1, 0}});
  ASSERT_EQ(names(crossed), Names{"shared-subnet"});
  EXPECT_EQ(crossed[0].about, "10.0.12.0/24");
  EXPECT_EQ(crossed[0].evidence,
            "Datagrams tell: a/p0:1 is cabled to b/p1:1, a/p1:1 is cabled to b/p0:1.");
  EXPECT_EQ(names(findings({})), Names{"shared-subnet"}) << "no datagram was answered";
  EXPECT_TRUE(findings(kAllPairs).empty());
  EXPECT_TRUE(shared_subnets(cabling, {{}, {{}}}).empty()) << "addresses tell all";
}

// A ring a-b-c-d: a and c share the subnet, and all their ports are cabled to others.
TEST(SharedSubnet, HostsWhosePortsAreAllCabledElsewhereDoNotMeet) {
  const topo::CableProof none{.asked = kAllPairs, .met = {}};
  const topo::CableProof next{.asked = kAllPairs, .met = {{1, 0}}};
  const topo::CableProof last{.asked = kAllPairs, .met = {{0, 1}}};
  const Proofs ring{{}, {next}, {none, next}, {last, none, next}};
  EXPECT_TRUE(are_cabled_elsewhere(ring, 0, 2));
  EXPECT_TRUE(are_cabled_elsewhere(ring, 3, 1));
  EXPECT_FALSE(are_cabled_elsewhere(ring, 0, 1));
  const Proofs silent{{}, {none}, {none, none}};
  EXPECT_FALSE(are_cabled_elsewhere(silent, 0, 2)) << "a firewall may drop datagrams";
}

TEST(SharedSubnet, ProofsTravelAsText) {
  const std::vector<topo::CableProof> before{{}, {.asked = kAllPairs, .met = {{1, 0}}}};
  const auto after = proofs_from(proofs_text(before), 2);
  ASSERT_TRUE(after.ok());
  EXPECT_EQ(*after, before);
  EXPECT_FALSE(proofs_from("[[]]", 2).ok());
  EXPECT_FALSE(proofs_from("[[[0]], []]", 2).ok());
}

TEST(Cabling, AMeetingOfARailThatIsNotThereIsNone) {
  engine::WirePath wild, other;
  wild.acceptor_rail = other.connector_rail = 200;
  const std::vector<HostRails> hosts = triangle();
  EXPECT_TRUE(cabling_of({hosts[0], hosts[1]}, {{}, {{wild, other}}}).cables.empty());
}

TEST(Cabling, HostsOfOneNameAreToldApart) {
  std::vector<HostRails> hosts{host("spark", {}), host("b", {}), host("spark", {})};
  tell_apart(hosts);
  EXPECT_EQ(hosts[0].host, "spark#0");
  EXPECT_EQ(hosts[1].host, "b");
  EXPECT_EQ(hosts[2].host, "spark#2");
}

TEST(Cabling, AHalfThatIsMissingOrDownIsNamed) {
  std::vector<HostRails> hosts = halves();
  hosts[1].rails[1].up = 0;
  EXPECT_EQ(names(look_at_map(found(hosts))), Names{"half-missing"});
  hosts = halves();
  hosts[1].rails.pop_back();
  hosts[1].paces.pop_back();
  EXPECT_EQ(names(look_at_map(found(hosts))), Names{"half-missing"});
  EXPECT_TRUE(lone_rails(found(hosts)).empty()) << "it is the half";
}

TEST(Cabling, MtusPortsAndRailsWithoutAPeerAreNamed) {
  std::vector<HostRails> hosts = triangle();
  hosts[1].rails[0].mtu = 3;
  EXPECT_EQ(names(look_at_map(found(hosts))), Names{"mtu-differs"});
  hosts = triangle();
  hosts[1].rails[0].up = 0;
  EXPECT_EQ(names(look_at_map(found(hosts))), Names{"cable-down"});
  hosts = triangle();
  hosts[2].rails[0] = rail_at("p0", 99, 3, 5);
  EXPECT_EQ(names(lone_rails(found(hosts))), (Names{"lone-rail", "lone-rail"}));
}

// Ends that share a subnet and cannot meet are a fault of their own, and no lone rails.
TEST(Cabling, EndsThatDoNotFitAreNamedWithBothValues) {
  struct Case {
    void (*spoil)(std::vector<HostRails>& hosts);
    const char* evidence;
  };
  const std::vector<Case> cases{
      {[](std::vector<HostRails>& hosts) {
         for (HostRails& each : hosts)
           for (engine::WireRail& rail : each.rails) rail.gid_type = 2;
         hosts[1].rails[0].gid_type = 1;
       },
       "The rail p0:1 of host a sends RoCE v2 (10.0.12.1) and rail p0:1 of host b RoCE v1 "
       "(10.0.12.2), which do not understand each other."},
      {[](std::vector<HostRails>& hosts) {
         for (HostRails* const each : {&hosts[0], &hosts[1]}) each->rails[0].ethernet = 0;
         hosts[1].rails[0].partition = 0x8001;
       },
       "The rail p0:1 of host a has the partition key 0xffff and rail p0:1 of host b 0x8001, so no "
       "packet passes."},
      {[](std::vector<HostRails>& hosts) {
         hosts[1].rails[0].addresses = hosts[0].rails[0].addresses;
       },
       "The rail p0:1 of host a and rail p0:1 of host b have one address, 10.0.12.1."}};
  for (const Case& each : cases) {
    std::vector<HostRails> hosts = triangle();
    for (std::size_t i = 0; i < hosts.size(); ++i) hosts[i].host_id = i + 1;
    each.spoil(hosts);
    const Cabling cabling = found(hosts);
    EXPECT_EQ(cabling.cables.size(), 2u);
    const std::vector<Finding> findings = look_at_map(cabling);
    ASSERT_EQ(names(findings), Names{"ends-do-not-fit"});
    EXPECT_EQ(findings[0].evidence, each.evidence);
    EXPECT_FALSE(findings[0].remedy.empty());
    EXPECT_TRUE(lone_rails(cabling).empty());
  }
}

constexpr const char* kMap = "# a comment\na/p0 b/p0:1\na/p1 c/p0  # another\n\nc/p1 b/p1\n";

TEST(ExpectedMap, WhatIsThereIsExpected) {
  const Cabling cabling = found(triangle());
  EXPECT_TRUE(against(cabling, kMap).empty());
  EXPECT_TRUE(against(cabling, map_text(cabling)).empty());
}

TEST(ExpectedMap, WhatDiffersIsNamed) {
  std::vector<HostRails> hosts = triangle();
  std::swap(hosts[0].rails[0].addresses, hosts[0].rails[1].addresses);
  EXPECT_EQ(names(against(found(hosts), kMap)), (Names{"crossed-cables", "crossed-cables"}));
  hosts = triangle();
  hosts[2].rails[0] = rail_at("p0", 99, 3, 5);
  EXPECT_EQ(names(against(found(hosts), kMap)), Names{"wrong-subnet"});
  hosts = triangle();
  hosts[2].rails.erase(hosts[2].rails.begin());
  hosts[2].paces.pop_back();
  EXPECT_EQ(names(against(found(hosts), kMap)), Names{"missing-cable"});
  EXPECT_EQ(names(against(found(triangle()), "a/p0 b/p0\na/p1 c/p0\n")), Names{"extra-cable"});
  EXPECT_EQ(names(against(found(triangle()), std::string(kMap) + "a/p2 d/p0\n")),
            Names{"host-missing"});
}

TEST(ExpectedMap, AHalfThatIsGoneIsNoMissingCable) {
  const std::string map = map_text(found(halves()));
  std::vector<HostRails> hosts = halves();
  hosts[1].rails.pop_back();
  hosts[1].paces.pop_back();
  EXPECT_TRUE(against(found(hosts), map).empty()) << "look_at_map names it";
}

TEST(ExpectedMap, AHostWithoutRailsIsNamedElsewhere) {
  std::vector<HostRails> hosts = triangle();
  hosts[1] = host("b", {});
  EXPECT_TRUE(against(found(hosts), kMap).empty());
  EXPECT_TRUE(lone_rails(found(hosts)).empty());
}

TEST(ExpectedMap, AWrongLineIsNamed) {
  std::string why;
  EXPECT_FALSE(parse_map("a/p0 b/p0\na/p1 c\n", why).ok());
  EXPECT_EQ(why, "line 2 is \"a/p1 c\"; wanted: HOST/PORT HOST/PORT");
  EXPECT_FALSE(parse_map("a/p0 b/p0 c/p0\n", why).ok());
  EXPECT_FALSE(parse_map("a/ b/p0\n", why).ok());
  EXPECT_FALSE(parse_map("# only this\n", why).ok());
  EXPECT_EQ(why, "it has no line; wanted: HOST/PORT HOST/PORT");
}

TEST(RankOrder, ARingOfCablesIsFoundWhereThereIsOne) {
  // The ring is 0 - 2 - 1 - 3 - 0.
  const std::set<std::pair<std::size_t, std::size_t>> cables{{0, 2}, {1, 2}, {1, 3}, {0, 3}};
  const Joined joined = [&](std::size_t a, std::size_t b) {
    return cables.contains({std::min(a, b), std::max(a, b)});
  };
  EXPECT_EQ(broken_neighbours(4, joined).size(), 2u);
  const RingSearch search = find_ring(4, joined);
  ASSERT_TRUE(search.order.has_value());
  EXPECT_EQ(broken_neighbours(4,
                              [&](std::size_t a, std::size_t b) {
                                return joined((*search.order)[a], (*search.order)[b]);
                              })
                .size(),
            0u);
  const RingSearch line = find_ring(3, [](std::size_t a, std::size_t b) { return a + b != 2; });
  EXPECT_FALSE(line.order.has_value());
  EXPECT_TRUE(line.whole);
}

TEST(RankOrder, TheSearchIsBounded) {
  // Two groups of hosts, each fully joined, with only one cable between them, form no ring.
  const RingSearch search = find_ring(
      40, [](std::size_t a, std::size_t b) { return (a < 20) == (b < 20) || a + b == 39; });
  const RingSearch cut = find_ring(40, [](std::size_t a, std::size_t b) {
    return (a < 20) == (b < 20) || (a == 19 && b == 20) || (a == 20 && b == 19);
  });
  EXPECT_TRUE(search.order.has_value() || !search.whole);
  EXPECT_FALSE(cut.order.has_value());
  EXPECT_FALSE(cut.whole);
}

TEST(RankOrder, AnotherOrderIsAdvised) {
  std::vector<HostRails> hosts{host("a", {rail_at("n", 1, 1, 1), rail_at("p", 4, 2, 2)}),
                               host("c", {rail_at("n", 3, 1, 3), rail_at("p", 2, 2, 4)}),
                               host("b", {rail_at("n", 2, 1, 5), rail_at("p", 1, 2, 6)}),
                               host("d", {rail_at("n", 4, 1, 7), rail_at("p", 3, 2, 8)})};
  const OrderAdvice advice = advise_order(found(hosts), {});
  ASSERT_TRUE(advice.finding.has_value());
  EXPECT_NE(advice.finding->remedy.find("a, b, c, d"), std::string::npos) << advice.finding->remedy;
  EXPECT_NE(advice.finding->evidence.find("a and c; b and d"), std::string::npos);
  std::swap(hosts[1], hosts[2]);
  EXPECT_FALSE(advise_order(found(hosts), {}).finding.has_value());
  EXPECT_FALSE(advise_order(found(triangle()), {}).finding.has_value());
}

TEST(RankOrder, ASilentCableIsNone) {
  Measured silent = rates(0, std::nullopt, 0, 0);
  silent.at_a.failed = "a message of one MTU";
  const OrderAdvice advice = advise_order(found(triangle()), {silent});
  EXPECT_FALSE(advice.finding.has_value());
  EXPECT_NE(advice.note.find("a and b"), std::string::npos);
}

TEST(Expected, IsThePortsSpeedLessWhatPacketsAdd) {
  Cabling cabling = found(halves());
  EXPECT_NEAR(expected_gbps(cabling, {0, std::nullopt}), 196.1, 0.1);
  EXPECT_NEAR(expected_gbps(cabling, {0, 0}), 98.0, 0.1) << "its share";
  for (HostRails& each : cabling.hosts)
    for (RailPace& pace : each.paces) pace.bus_gbps = 107;
  EXPECT_NEAR(expected_gbps(cabling, {0, 0}), 107, 0.1) << "its PCIe link";
  EXPECT_NEAR(expected_gbps(cabling, {0, std::nullopt}), 196.1, 0.1);
  cabling.hosts[0].paces[0].known = false;
  EXPECT_EQ(expected_gbps(cabling, {0, 0}), 0);
}

TEST(Expected, OfTheHalfThatIsLeftIsItsShare) {
  std::vector<HostRails> hosts = halves();
  hosts[1].rails.pop_back();
  hosts[1].paces.pop_back();
  EXPECT_NEAR(expected_gbps(found(hosts), {0, std::nullopt}), 98.0, 0.1);
}

TEST(Judge, HealthyCablesHaveNoFinding) {
  EXPECT_TRUE(judge(found(triangle()),
                    {rates(0, {}, 196, 195), rates(1, {}, 160, 160), rates(2, {}, 190, 180)}, 0.8)
                  .empty());
  EXPECT_TRUE(judge(found(halves()),
                    {rates(0, 0, 98, 98), rates(0, 1, 98, 98), rates(0, {}, 196, 196)}, 0.8)
                  .empty());
}

TEST(Judge, RatesBelowTheThresholdAreNamed) {
  const Cabling three = found(triangle()), one = found(halves());
  EXPECT_EQ(names(judge(three, {rates(0, {}, 13, 13)}, 0.8)), Names{"slow-cable"});
  EXPECT_EQ(names(judge(three, {rates(0, {}, 26, 190)}, 0.8)), Names{"sick-direction"});
  EXPECT_EQ(names(judge(three, {rates(0, {}, 26, 60)}, 0.8)), Names{"sick-direction"});
  EXPECT_EQ(
      names(judge(one, {rates(0, 0, 98, 98), rates(0, 1, 13, 13), rates(0, {}, 110, 110)}, 0.8)),
      Names{"slow-half"});
  EXPECT_EQ(
      names(judge(one, {rates(0, 0, 13, 13), rates(0, 1, 13, 13), rates(0, {}, 26, 26)}, 0.8)),
      Names{"slow-cable"});
  EXPECT_EQ(
      names(judge(one, {rates(0, 0, 98, 98), rates(0, 1, 98, 98), rates(0, {}, 120, 119)}, 0.8)),
      Names{"slow-cable"})
      << "together they carry too little";
}

TEST(Judge, EachDirectionAloneTellsWhichIsSick) {
  const Cabling cabling = found(triangle());
  Measured measured = rates(0, {}, 26, 27);
  measured.at_a.alone_gbps = 190;
  measured.at_b.alone_gbps = 26;
  const std::vector<Finding> findings = judge(cabling, {measured}, 0.8);
  EXPECT_EQ(names(findings), Names{"sick-direction"});
  EXPECT_NE(findings[0].evidence.find("alone they carried 26 and 190"), std::string::npos)
      << findings[0].evidence;
  measured.at_b.alone_gbps = 190;
  EXPECT_EQ(names(judge(cabling, {measured}, 0.8)), Names{"slow-cable"});
}

TEST(Judge, WhatFailsIsNamedByWhatThePluginSays) {
  const Cabling cabling = found(triangle());
  Measured failed = rates(0, {}, 0, 0);
  failed.at_b.failed = "a message of one MTU";
  EXPECT_EQ(names(judge(cabling, {failed}, 0.8)), Names{"silent-cable"});
  Measured not_ready = failed;
  not_ready.at_a.failed = "registering memory";
  EXPECT_EQ(names(judge(cabling, {not_ready}, 0.8)), Names{"not-measured"});
  failed.at_a.black_hole = "x -> y";
  const std::vector<Finding> hole = judge(cabling, {failed}, 0.8);
  EXPECT_EQ(names(hole), Names{"mtu-black-hole"});
  EXPECT_EQ(hole[0].evidence, "Small packets pass and full ones are lost, on the path x -> y.");
  Measured flapped = rates(0, {}, 196, 196);
  flapped.at_a.port_down = "rail p0:1: its port went down";
  EXPECT_EQ(names(judge(cabling, {flapped}, 0.8)), Names{"flapping-port"});
}

TEST(Seen, IsWhatTheSnapshotTellsOfPortsAndPaths) {
  Snapshot snapshot;
  snapshot.engine.rails.resize(1);
  snapshot.engine.rails[0].name = "p0:1";
  snapshot.engine.rails[0].offered = true;
  PathSnapshot path;
  path.name = "x -> y";
  snapshot.engine.peers.resize(1);
  snapshot.engine.peers[0].paths = {path};
  Seen seen;
  note_trouble(snapshot, seen);
  EXPECT_EQ(seen.port_down + seen.black_hole + seen.said, "");
  snapshot.warnings = {"an older one", "peer b: no path comes up; look at it"};
  note_trouble(snapshot, seen);
  EXPECT_EQ(seen.said, "peer b: no path comes up");
  snapshot.engine.rails[0].port_downs = 2;
  snapshot.engine.peers[0].paths[0].black_holes = 1;
  snapshot.engine.peers[0].paths[0].last_cause = "full packets are lost; raise it";
  note_trouble(snapshot, seen);
  EXPECT_EQ(seen.port_down, "rail p0:1: its port went down");
  EXPECT_EQ(seen.black_hole, "x -> y");
  EXPECT_EQ(seen.said, "path x -> y is lost: full packets are lost");
  const Seen back = seen_from(to_text(seen));
  EXPECT_EQ(back.port_down, seen.port_down);
  EXPECT_EQ(back.black_hole, seen.black_hole);
}

TEST(Echoes, WhatAHostShowsByItselfIsNotToldAgain) {
  std::vector<HostRails> hosts = halves();
  hosts[1].rails[1].up = 0;
  const std::vector<Finding> between = look_at_map(found(hosts));
  const Finding gone{"half-gone", Severity::Warning, "b", "", "", ""};
  const Finding other{"half-gone", Severity::Warning, "c", "", "", ""};
  EXPECT_TRUE(without_echoes(between, {gone}).empty());
  EXPECT_EQ(names(without_echoes(between, {other})), Names{"half-missing"});
  EXPECT_EQ(names(without_echoes(between, {})), Names{"half-missing"});
}

TEST(Schedule, HalvesComeBeforeTheWholeAndHostsHaveOneCableAtATime) {
  const Schedule one = schedule(found(halves()), false);
  ASSERT_EQ(one.rounds.size(), 3u);
  EXPECT_EQ(one.rounds[0][0].half, 0u);
  EXPECT_EQ(one.rounds[1][0].half, 1u);
  EXPECT_FALSE(one.rounds[2][0].half.has_value());
  EXPECT_EQ(schedule(found(triangle()), false).rounds.size(), 3u);
  std::vector<HostRails> four = triangle();
  four.push_back(host("d", {rail_at("p0", 14, 4, 9)}));
  four[0].rails[1] = rail_at("p1", 50, 1, 2);
  four[2].rails[0] = rail_at("p0", 14, 3, 5);
  // In the chain a-b, b-c, c-d the first and the last pair share no host.
  const Schedule chain = schedule(found(four), false);
  EXPECT_EQ(chain.rounds.size(), 2u);
  EXPECT_EQ(schedule(found(four), true).rounds.size(), 3u);
}

TEST(Drawing, ShowsPortsRatesAndWhatIsSick) {
  const Cabling cabling = found(triangle());
  const std::vector<Measured> measured{rates(0, {}, 13, 12.5)};
  const std::vector<Finding> findings = judge(cabling, measured, 0.8);
  const MapView view{cabling, measured, findings};
  EXPECT_NE(map_section(view).find("a     p0:1  10.0.12.1/24  200 Gb/s  4096  b/p0:1\n"),
            std::string::npos)
      << map_section(view);
  EXPECT_NE(rates_section(view).find("a/p0:1 -- b/p0:1  13"), std::string::npos);
  const std::string svg = map_svg(view);
  EXPECT_EQ(svg.rfind("<svg", 0), 0u);
  EXPECT_NE(svg.find("a to b 13 Gb/s"), std::string::npos);
  EXPECT_NE(svg.find("stroke-dasharray"), std::string::npos);
  EXPECT_EQ(svg.find("stroke-dasharray"), svg.rfind("stroke-dasharray")) << "one cable is sick";
}

}  // namespace
}  // namespace mesh::doctor

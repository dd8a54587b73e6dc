// The attributes of a path's queue pairs: the addresses of both sides, and how long address
// resolution is tried.
#include "engine/link/link_setup.h"

#include "engine/data/progress_loop.h"
#include "engine/link/handshake.h"
#include "src/verbs/gid_choice.h"
#include "tests/prelude.h"
#include "tests/unit/base/log_capture.h"
#include "tests/unit/engine/data/nobody.h"
#include "tests/unit/verbs/fake_provider.h"

namespace mesh::engine {
namespace {

using mesh::testkit::NoOwner, mesh::testkit::NoWaker;

// Records the attributes of each step to RTR. Fails the first tries, as an unresolved neighbour.
class Neighbourhood : public verbs::testkit::FakeProvider {
 public:
  int modify_qp(ibv_qp*, ibv_qp_attr* attr, int) override {
    if (attr->qp_state == IBV_QPS_INIT) pkey_index = attr->pkey_index;
    state = attr->qp_state;
    if (attr->qp_state != IBV_QPS_RTR) return 0;
    asked.push_back(*attr);
    if (abandon_at == asked.size()) abandoned = true;
    if (asked.size() <= answers.size()) return answers[asked.size() - 1];
    return --failures_left >= 0 ? failure : 0;
  }
  int query_ece(ibv_qp*, ibv_ece* ece) override {
    ++ece_queries;
    *ece = {.vendor_id = 0x15b3, .options = ece_options, .comp_mask = 0};
    return 0;
  }
  int set_ece(ibv_qp*, ibv_ece* ece) override {
    EXPECT_EQ(state, IBV_QPS_INIT);
    if (ece_answer == 0) ece_options &= ece->options, ++ece_set;
    return ece_answer;
  }

  std::vector<verbs::GidEntry> gids(ibv_context*, std::uint8_t) override { return gid_table; }
  verbs::Route route(const verbs::GidEntry&, const ibv_gid&) override { return routes; }
  std::uint32_t port_speed_mbps(ibv_context*, std::uint8_t) override { return 0; }
  int query_port(ibv_context*, std::uint8_t, ibv_port_attr* attr) override {
    if (port) *attr = *port;
    return port ? 0 : ENODEV;
  }

  std::vector<ibv_qp_attr> asked;
  std::optional<ibv_port_attr> port;  // its present state
  std::vector<verbs::GidEntry> gid_table;
  verbs::Route routes;
  int pkey_index = -1;
  ibv_qp_state state = IBV_QPS_RESET;
  std::uint32_t ece_options = 0b1101;
  int ece_queries = 0, ece_set = 0, ece_answer = 0;
  std::vector<int> answers;  // results of the first tries
  std::size_t abandon_at = 0;
  std::atomic<bool> abandoned{false};
  int failures_left = 0;
  int failure = ETIMEDOUT;
};

class LinkSetupTest : public testing::Test {
 protected:
  LinkSetupTest() {
    rail_.info.name = "n0:1";
    rail_.cq_entries_max = 65536;
    rail_.active_mtu = IBV_MTU_4096;
    rail_.gids = {verbs::testkit::gid_of(3, "192.168.50.1"),
                  verbs::testkit::gid_of(7, "10.0.12.1")};
    provider_.gid_table = rail_.gids;
    peer_path_.mtu = IBV_MTU_1024;
    for (const char* text : {"192.168.60.2", "10.0.13.2", "10.0.12.2"}) {
      const ibv_gid gid = verbs::testkit::gid_bytes(text);
      std::memcpy(peer_rail_.addresses.emplace_back().gid.data(), gid.raw, sizeof gid.raw);
    }
    policy_.qps = 1;
    policy_.inflight_us = 1000;
    loop_.devices.push_back(std::make_unique<DeviceContext>(provider_, rail_, 0));
    EXPECT_TRUE(loop_.devices[0]->open().ok());
    link_ = std::make_unique<PeerLink>(
        loop_, owner_, LinkIdentity{.role = LinkRole::Acceptor, .peer_host = "far"}, policy_);
    Path& path = link_->paths().add_primary(
        *loop_.devices[0], {.own_address = 1, .peer_rail = 0, .peer_address = 2}, "the path");
    EXPECT_TRUE(link_->paths().make(path).ok());
    peer_path_.qpn = {11, 12};
  }
  ~LinkSetupTest() override {
    const ProgressLoop::Guard progress_lock(loop_);
    link_->destroy_queue_pairs();
  }

  Status connect() {
    return connect_path(
        link_->paths()[0],
        {.rail = &peer_rail_, .path = &peer_path_, .own_psn = 1, .abandoned = &provider_.abandoned},
        settings_);
  }

  WirePath describe() { return describe_path(link_->paths()[0], 1, {}); }

  Neighbourhood provider_;
  verbs::Rail rail_;
  NoWaker waker_;
  NoOwner owner_;
  TransferPolicy policy_;
  ProgressLoop loop_{waker_};
  std::unique_ptr<PeerLink> link_;
  WireRail peer_rail_;
  WirePath peer_path_;
  Settings settings_;
};

TEST_F(LinkSetupTest, SpeaksFromAndToTheAddressesOfThePath) {
  ASSERT_TRUE(connect().ok());
  ASSERT_EQ(provider_.asked.size(), 2u);
  for (const ibv_qp_attr& attr : provider_.asked) {
    EXPECT_EQ(attr.ah_attr.grh.sgid_index, 7);
    EXPECT_EQ(verbs::address_of(attr.ah_attr.grh.dgid).text(), "10.0.12.2");
    EXPECT_EQ(attr.path_mtu, IBV_MTU_1024) << "the smaller of both ends";
  }
  EXPECT_EQ(provider_.asked[1].dest_qp_num, 12u);
}

// The interface was down and up between the start and the connect.
TEST_F(LinkSetupTest, TheAddressIsUsedUnderTheIndexThatItHasNow) {
  provider_.gid_table[1].index = 4;
  ASSERT_TRUE(connect().ok());
  EXPECT_EQ(provider_.asked.back().ah_attr.grh.sgid_index, 4);
}

TEST_F(LinkSetupTest, AnAddressThatThePortHasLostIsNamed) {
  const testkit::LogCapture log;
  provider_.gid_table.pop_back();
  EXPECT_EQ(connect().code(), Errc::Transport);
  EXPECT_TRUE(provider_.asked.empty());
  EXPECT_TRUE(log.warned("the path: our port has lost its address"));
}

// Enhanced connection establishment: a side that gets an offer uses what it can of it, and says so.
TEST_F(LinkSetupTest, WhatAPeersDeviceOffersIsTakenBeforeRtrAndAnswered) {
  configure_path(*link_, link_->paths()[0], settings_);
  Path& path = link_->paths()[0];
  note_ece(path, *path.queue_pairs[0]);
  EXPECT_EQ(describe().ece, (WireEce{.vendor = 0x15b3, .options = 0b1101})) << "an offer";
  peer_path_.ece = {.vendor = 0x15b3, .options = 0b0111};
  ASSERT_TRUE(connect().ok());
  EXPECT_EQ(provider_.ece_set, 2) << "of each queue pair";
  EXPECT_EQ(describe().ece, (WireEce{.vendor = 0x15b3, .options = 0b0101})) << "an answer";
}

TEST_F(LinkSetupTest, OptionsThatTheDeviceRefusesAreDoneWithout) {
  configure_path(*link_, link_->paths()[0], settings_);
  peer_path_.ece = {.vendor = 0x15b3, .options = 0b0111};
  provider_.ece_answer = EINVAL;
  ASSERT_TRUE(connect().ok());
  EXPECT_EQ(describe().ece, WireEce{}) << "the peer must not use what we do not";
}

TEST_F(LinkSetupTest, APeerWithoutOptionsIsAnsweredWithNone) {
  configure_path(*link_, link_->paths()[0], settings_);
  ASSERT_TRUE(connect().ok());
  EXPECT_EQ(provider_.ece_set, 0);
  EXPECT_EQ(describe().ece, WireEce{});
}

TEST_F(LinkSetupTest, SwitchedOffNoOptionsAreAskedForOrTaken) {
  settings_.ece = 0;
  configure_path(*link_, link_->paths()[0], settings_);
  EXPECT_EQ(describe().ece, WireEce{});
  peer_path_.ece = {.vendor = 0x15b3, .options = 1};
  ASSERT_TRUE(connect().ok());
  EXPECT_EQ(provider_.ece_set + provider_.ece_queries, 0);
}

TEST_F(LinkSetupTest, ANeighbourWhoDoesNotAnswerAtOnceIsAskedAgain) {
  provider_.failures_left = 2;
  EXPECT_TRUE(connect().ok());
  EXPECT_EQ(provider_.asked.size(), 2u + 2u);
}

TEST_F(LinkSetupTest, ASilentNeighbourIsNamedAfterThreeTries) {
  provider_.failures_left = 100;
  const testkit::LogCapture log;
  EXPECT_EQ(connect().code(), Errc::Transport);
  EXPECT_EQ(provider_.asked.size(), 3u);
  EXPECT_TRUE(
      log.warned("the path: queue pair to RTR: Connection timed out (the peer's address is not "
                 "reachable over this port)"));
}

TEST_F(LinkSetupTest, TheTriesAreThoseOfThePath) {
  provider_.answers = {ETIMEDOUT, ETIMEDOUT, 0, ETIMEDOUT};
  EXPECT_EQ(connect().code(), Errc::Transport);
  EXPECT_EQ(provider_.asked.size(), 4u) << "the second queue pair has no three of its own";
}

TEST_F(LinkSetupTest, NobodyIsAskedAnyMoreOnceItIsAbandoned) {
  provider_.failures_left = 100;
  provider_.abandon_at = 2;
  const testkit::LogCapture log;
  EXPECT_EQ(connect().code(), Errc::PeerClosed);
  EXPECT_EQ(provider_.asked.size(), 2u);
  EXPECT_TRUE(log.all().empty()) << log.joined();
}

TEST_F(LinkSetupTest, OtherRefusalsAreNotRepeated) {
  provider_.failures_left = 100;
  provider_.failure = EINVAL;
  EXPECT_EQ(connect().code(), Errc::Transport);
  EXPECT_EQ(provider_.asked.size(), 1u);
}

TEST_F(LinkSetupTest, RoutersMayLieBetween) {
  ASSERT_TRUE(connect().ok());
  EXPECT_EQ(provider_.asked[0].ah_attr.grh.hop_limit, 255);
}

TEST_F(LinkSetupTest, WhereThisHostHasNoRouteTheWireIsNotAsked) {
  rail_.gids[1].prefix_len = 31;
  peer_rail_.addresses[2].prefix_len = 31;
  const testkit::LogCapture log;
  provider_.routes = {.kind = verbs::RouteKind::None, .netdev = ""};
  EXPECT_EQ(connect().code(), Errc::Transport);
  provider_.routes = {.kind = verbs::RouteKind::Elsewhere, .netdev = "eth0"};
  EXPECT_EQ(connect().code(), Errc::Transport);
  EXPECT_TRUE(provider_.asked.empty());
  EXPECT_TRUE(log.warned("the path: this host has no route to that address"));
  EXPECT_TRUE(log.warned("the path: this host's route to that address leaves by eth0"));
  provider_.routes = {.kind = verbs::RouteKind::ByPort, .netdev = ""};
  EXPECT_TRUE(connect().ok());
}

TEST_F(LinkSetupTest, AQueuePairHasThePartitionKeyOfItsRail) {
  rail_.pkey_index = 3;
  ASSERT_TRUE(connect().ok());
  EXPECT_EQ(provider_.pkey_index, 3);
}

// An InfiniBand port of ours and one of the peer's, with these GIDs.
class InfiniBandSetupTest : public LinkSetupTest {
 protected:
  ibv_ah_attr address_towards(const char* own, const char* peer) {
    rail_.ethernet = false;
    rail_.gids[1] = verbs::testkit::gid_of(2, own, verbs::GidType::Ib);
    provider_.gid_table = rail_.gids;
    peer_rail_.ethernet = 0;
    const ibv_gid gid = verbs::testkit::gid_bytes(peer);
    std::memcpy(peer_rail_.addresses[2].gid.data(), gid.raw, sizeof gid.raw);
    peer_path_.lid = 77;
    EXPECT_TRUE(connect().ok());
    return provider_.asked.back().ah_attr;
  }
};

TEST_F(InfiniBandSetupTest, UnderOnePrefixTheLidIsEnough) {
  const ibv_ah_attr address = address_towards("fe80::1", "fe80::2");
  EXPECT_EQ(address.dlid, 77);
  EXPECT_EQ(address.is_global, 0);
}

TEST_F(InfiniBandSetupTest, APortThatRequiresAGlobalHeaderGetsOne) {
  rail_.global_header_required = true;
  const ibv_ah_attr address = address_towards("fe80::1", "fe80::2");
  EXPECT_EQ(address.is_global, 1);
  EXPECT_EQ(address.dlid, 77);
  EXPECT_EQ(address.grh.sgid_index, 2);
  EXPECT_EQ(verbs::address_of(address.grh.dgid).text(), "fe80::2");
}

TEST_F(InfiniBandSetupTest, UnderAnotherPrefixThereIsAGlobalHeader) {
  const ibv_ah_attr address = address_towards("fec0:0:0:1::1", "fec0:0:0:2::2");
  EXPECT_EQ(address.is_global, 1);
  EXPECT_EQ(address.grh.hop_limit, 255);
  EXPECT_EQ(address.dlid, 77) << "its GID names no LID for routers";
}

TEST_F(InfiniBandSetupTest, TheLidForRoutersIsInTheGid) {
  EXPECT_EQ(address_towards("fec0:0:10:1::1", "fec0:0:20:2::2").dlid, 0x20);
}

TEST(Marking, SettingsGoBeforeTheCommunicatorsWish) {
  const auto marks = [](int tc, int sl, int wish) {
    Settings settings;
    settings.traffic_class = tc;
    settings.service_level = sl;
    const Marking marking = marking_of(settings, wish);
    return std::pair(marking.traffic_class, marking.service_level);
  };
  EXPECT_EQ(marks(kAuto, kAuto, kAuto), std::pair(0, 0));
  EXPECT_EQ(marks(106, 3, 42), std::pair(106, 3));
  EXPECT_EQ(marks(0, 0, 42), std::pair(0, 0));
  EXPECT_EQ(marks(kAuto, kAuto, 5), std::pair(5, 5));
  EXPECT_EQ(marks(kAuto, kAuto, 106), std::pair(106, 10)) << "a service level has four bits";
  EXPECT_EQ(marks(kAuto, 3, 5), std::pair(5, 3));
}

// A port of 40 Gb/s with an MTU of 2048 bytes.
ibv_port_attr slow_port() {
  ibv_port_attr port{};
  port.state = IBV_PORT_ACTIVE;
  port.active_mtu = IBV_MTU_2048;
  port.active_speed = 8;
  port.active_width = 2;
  return port;
}

// The port was down at the start, and the attributes that it showed then meant nothing.
TEST_F(LinkSetupTest, APathIsAsItsPortIsNow) {
  provider_.port = slow_port();
  peer_path_.mtu = IBV_MTU_4096;
  Path& path = link_->paths()[0];
  configure_path(*link_, path, settings_);
  EXPECT_EQ(path.speed_mbps, 40'000u);
  EXPECT_EQ(path.inflight_bytes_max, std::uint64_t{40'000} * policy_.inflight_us / 8)
      << "so much is in flight, and no more";
  path.ends.peer_speed_mbps = 10'000;
  take_port_speed(*link_, path);
  EXPECT_EQ(path.speed_mbps, 10'000u) << "the slower of both";
  ASSERT_TRUE(connect().ok());
  EXPECT_EQ(provider_.asked.back().path_mtu, IBV_MTU_2048);
  EXPECT_EQ(path.ends.mtu_bytes, 2048u);
  EXPECT_EQ(describe().mtu, IBV_MTU_2048);
}

TEST_F(LinkSetupTest, ARailIsDescribedAsItsPortIsNow) {
  std::vector<verbs::Rail> rails(1);
  rails[0].gids = rail_.gids;
  rails[0].up = false;
  const auto described = [&] { return describe_rails(provider_, rails).front(); };
  EXPECT_EQ(described().up, 0);
  EXPECT_EQ(described().mtu, IBV_MTU_1024);
  EXPECT_EQ(described().speed_mbps, 0u);
  provider_.port = slow_port();
  EXPECT_EQ(described().up, 1);
  EXPECT_EQ(described().mtu, IBV_MTU_2048);
  EXPECT_EQ(described().speed_mbps, 40'000u);
}

// Both ends of a hop use the smaller MTU of the hop's two ports, whatever other hops use.
TEST(OverHop, NamesTheNextHostsPortAndTheFarEndsMemory) {
  WirePath ends;
  ends.mtu = 3, ends.lid = 5, ends.psn = 7, ends.counters_address = 0x1000, ends.counters_rkey = 9;
  ends.qpn = {1, 2};
  WireHop hop;
  hop.mtu = 5, hop.lid = 6, hop.psn = 8;
  hop.qps = {{.qpn = 11}, {.qpn = 12}};
  const WirePath path = over_hop(ends, hop);
  EXPECT_EQ(path.mtu, 5);
  EXPECT_EQ(path.lid, 6);
  EXPECT_EQ(path.psn, 8u);
  EXPECT_EQ(path.qpn, (std::vector<std::uint32_t>{11, 12}));
  EXPECT_EQ(path.counters_address, 0x1000u);
  EXPECT_EQ(path.counters_rkey, 9u);
}

TEST(LongPath, SitesAreApartWhereBothAreNamedAndDiffer) {
  EXPECT_TRUE((SiteCrossing{.own = "east", .peer = "west"}.apart()));
  EXPECT_FALSE((SiteCrossing{.own = "east", .peer = "east"}.apart()));
  EXPECT_FALSE(SiteCrossing{}.apart());
}

TEST(LongPath, OneSiteWithoutANameIsRefusedByTheNamesOfBothHosts) {
  EXPECT_EQ(site_refusal("a", "", "b", ""), "");
  EXPECT_EQ(site_refusal("a", "east", "b", "west"), "");
  const char* const text =
      "host a is at site east and host b names none: set NCCL_MESH_SITE on every host or on none";
  EXPECT_EQ(site_refusal("a", "east", "b", ""), text);
  EXPECT_EQ(site_refusal("b", "", "a", "east"), text);
}

TEST(LongPath, ARoundTripAtThePortsSpeedIsInFlightBeyondTheUsual) {
  TransferPolicy policy;
  policy.inflight_us = 4000;
  const LongPath path{
      .speed_mbps = 100'000, .round_trip_ns = 10'000'000, .usual_inflight_bytes = 8u << 20};
  EXPECT_EQ(long_inflight_bytes(policy, path), (8u << 20) + 125'000'000u);
  policy.inflight_us = 0;
  EXPECT_EQ(long_inflight_bytes(policy, path), 8u << 20) << "the job has said so";
}

TEST(LongPath, TimersOutlastTheRoundTrip) {
  EXPECT_EQ(long_ack_timer(16, 10'000'000), 16) << "268 ms are enough for 10 ms";
  EXPECT_EQ(long_ack_timer(16, 100'000'000), 18) << "1.07 s for 0.1 s";
  EXPECT_EQ(long_ack_timer(20, 100'000'000), 20);
  EXPECT_EQ(long_ack_timer(0, 100'000'000), 0) << "for ever";
  EXPECT_EQ(long_ack_timer(16, std::uint64_t{1} << 50), 31) << "the field has five bits";
  EXPECT_EQ(long_path_timeout_ns(30'000'000'000, 10'000'000), 31'000'000'000u);
}

TEST(LongPath, QueuesAreDeeperAsFarAsTheDeviceAllows) {
  EXPECT_EQ(long_depth(256, 0), 2048u);
  EXPECT_EQ(long_depth(256, 1500), 1024u);
  EXPECT_EQ(long_depth(256, 100), 256u) << "never less than usual";
  EXPECT_EQ(long_depth(4096, 32768), 4096u);
}

}  // namespace
}  // namespace mesh::engine

#include "src/verbs/discovery.h"

#include "src/base/thread_pool.h"
#include "tests/prelude.h"
#include "tests/unit/base/log_capture.h"
#include "tests/unit/verbs/fake_provider.h"

namespace mesh::verbs {
namespace {

using mesh::testkit::LogCapture, testkit::device, testkit::ethernet_port, testkit::FakeProvider,
    testkit::gid_of, testkit::two_devices;

std::vector<std::string> names(FakeProvider& provider, const Settings& settings = {}) {
  std::vector<std::string> found;
  Result<std::vector<Rail>> rails = discover(provider, settings);
  if (!rails.ok()) return found;
  for (const Rail& rail : *rails) found.push_back(rail.info.name);
  return found;
}

using Names = std::vector<std::string>;

TEST(Discovery, RailsAreSortedByPciAddressAndPort) {
  FakeProvider provider = two_devices();
  EXPECT_EQ(names(provider), (Names{"mlx5_0:1", "mlx5_1:1", "mlx5_1:2"}));
  EXPECT_EQ(provider.open_now, 0);
  for (testkit::FakeDevice& fake : provider.fakes)
    fake.entry.pci_path = fake.entry.name == "mlx5_0" ? "/sys/0000:81:00.0" : "/sys/0000:01:00.0";
  EXPECT_EQ(names(provider), (Names{"mlx5_1:1", "mlx5_1:2", "mlx5_0:1"}));
}

// Eight devices. Neither NCCL_IB_HCA nor a port that is down shifts their places.
class EightRails : public testing::Test {
 public:
  EightRails() {
    for (int i = 0; i < 8; ++i) {
      provider_.fakes.push_back(device(fmt::format("mlx5_{}", i),
                                       {ethernet_port({gid_of(3, fmt::format("10.0.{}.1", i))})}));
    }
  }

 protected:
  std::vector<Rail> rails(const std::string& hca = "") {
    Settings settings;
    settings.hca = hca;
    Result<std::vector<Rail>> found = discover(provider_, settings);
    return found.ok() ? std::move(*found) : std::vector<Rail>{};
  }
  static std::vector<std::uint32_t> identities(const std::vector<Rail>& rails) {
    std::vector<std::uint32_t> all;
    all.reserve(rails.size());
    for (const Rail& rail : rails) all.push_back(rail.identity);
    return all;
  }
  void take_down(std::size_t i) { provider_.fakes[i].ports[0].attr.state = IBV_PORT_DOWN; }

  FakeProvider provider_;
};

TEST_F(EightRails, WhatAPortIsIsKnownWhenItComesUp) {
  take_down(3);
  ibv_port_attr& port = provider_.fakes[3].ports[0].attr;
  const ibv_mtu mtu = std::exchange(port.active_mtu, ibv_mtu{});
  const std::vector<Rail> found = rails();
  ASSERT_EQ(found.size(), 8u);
  const Rail& late = found.back();
  EXPECT_EQ(late.active_mtu, IBV_MTU_1024) << "one that a frame can hold";
  EXPECT_FALSE(port_now(provider_, late).up);
  EXPECT_EQ(port_now(provider_, late).mtu, IBV_MTU_1024);
  EXPECT_EQ(port_now(provider_, late).speed_mbps, 0u);
  port.active_mtu = mtu;
  port.state = IBV_PORT_ACTIVE;
  const PortNow now = port_now(provider_, late);
  EXPECT_TRUE(now.up);
  EXPECT_EQ(now.mtu, IBV_MTU_4096);
  EXPECT_EQ(now.speed_mbps, found.front().info.speed_mbps);
}

TEST_F(EightRails, AnAddressIsFoundUnderItsNewIndex) {
  const std::vector<Rail> found = rails();
  const std::size_t last = found[3].gids.size() - 1;
  const GidEntry known = found[3].gids[last];
  EXPECT_EQ(gid_index_now(provider_, found[3], last), known.index);
  std::vector<GidEntry>& table = provider_.fakes[3].ports[0].gids;
  GidEntry other_type = known;
  other_type.type = known.type == GidType::RoceV2 ? GidType::RoceV1 : GidType::RoceV2;
  table = {other_type, known};
  table[0].index = known.index;
  table[1].index = known.index + 4;
  EXPECT_EQ(gid_index_now(provider_, found[3], last), known.index + 4);
  table.pop_back();
  EXPECT_EQ(gid_index_now(provider_, found[3], last), std::nullopt) << "the port has lost it";
}

TEST_F(EightRails, APortThatIsDownKeepsItsPlaceBehindThoseThatAreUp) {
  const std::vector<std::uint32_t> all = identities(rails());
  take_down(3);
  const LogCapture log;
  const std::vector<Rail> found = rails();
  ASSERT_EQ(found.size(), 8u);
  EXPECT_EQ(found.back().info.name, "mlx5_3:1");
  EXPECT_FALSE(found.back().up);
  EXPECT_EQ(found.back().info.speed_mbps, 0u) << "it has no signal that would tell";
  EXPECT_TRUE(found[6].up);
  std::vector<std::uint32_t> wanted = all;
  wanted.erase(wanted.begin() + 3);
  wanted.push_back(all[3]);
  EXPECT_EQ(identities(found), wanted);
  EXPECT_TRUE(log.said(
      LogLevel::Info,
      "rail 7 mlx5_3:1: 10.0.3.1/24, its port is down; it takes its place when it comes up"));
}

TEST_F(EightRails, WithoutAnAddressOfItsOwnAPortThatIsDownIsNoRail) {
  take_down(3);
  provider_.fakes[3].ports[0].gids = {gid_of(1, "fe80::1")};
  const std::vector<Rail> found = rails();
  ASSERT_EQ(found.size(), 7u);
  EXPECT_EQ(found[3].identity, 4u << 8 | 1) << "its place is not given to another";
}

TEST_F(EightRails, WhereAllAreDownThereIsNoRail) {
  for (std::size_t i = 0; i < 8; ++i) take_down(i);
  const LogCapture log;
  EXPECT_TRUE(rails().empty());
  EXPECT_NE(log.joined().find("mlx5_7:1 is down"), std::string::npos) << log.joined();
}

TEST_F(EightRails, PlacesAreThoseAmongTheDevicesThatAreAllowed) {
  EXPECT_EQ(identities(rails("=mlx5_2,mlx5_5")), (std::vector<std::uint32_t>{1, 1u << 8 | 1}));
}

TEST_F(EightRails, AnAssignedRailAndPlaneAreTheIdentity) {
  const std::vector<std::uint32_t> one = identities(rails("=mlx5_2:1:7:1,mlx5_5:1:8"));
  const std::vector<std::uint32_t> other = identities(rails("=mlx5_0:1:8,mlx5_6:1:7:1"));
  ASSERT_EQ(one.size(), 2u);
  EXPECT_NE(one[0], one[1]);
  EXPECT_EQ(one, (std::vector<std::uint32_t>{other[1], other[0]}));
}

TEST(Discovery, EachRailHasItsOwnContext) {
  FakeProvider provider = two_devices();
  {
    const Result<std::vector<Rail>> rails = discover(provider, {});
    ASSERT_TRUE(rails.ok());
    EXPECT_EQ(provider.open_now, 3);
    EXPECT_NE((*rails)[1].context.get(), (*rails)[2].context.get());
  }
  EXPECT_EQ(provider.open_now, 0);
}

// A host whose device mlx5_0 cannot be opened before heal().
class SickDevice : public FakeProvider {
 public:
  explicit SickDevice(FakeProvider like) : FakeProvider(std::move(like)) {}
  void heal() { healed_.set_value(); }
  ibv_context* open_device(const std::string& name) override {
    if (name == "mlx5_0") {
      healthy_.wait();
      return nullptr;
    }
    return FakeProvider::open_device(name);
  }

 private:
  std::promise<void> healed_;
  std::shared_future<void> healthy_ = healed_.get_future().share();
};

TEST(Discovery, OnThreadsADeviceThatDoesNotAnswerIsLeftOutIfAnotherHasAPortThatIsUp) {
  const LogCapture log;
  const Settings settings;
  SickDevice provider(two_devices()), without_port(two_devices());
  for (testkit::FakeDevice& fake : without_port.fakes)
    for (testkit::FakePort& port : fake.ports) port.attr.state = IBV_PORT_DOWN;
  ThreadPool pool("looks");
  std::future<bool> waits = std::async(
      std::launch::async, [&] { return discover(without_port, settings, nullptr, &pool).ok(); });
  std::vector<RefusedPort> refused;
  const Result<std::vector<Rail>> rails = discover(provider, settings, &refused, &pool);
  EXPECT_EQ(waits.wait_for(std::chrono::seconds(1)), std::future_status::timeout);
  provider.heal();
  without_port.heal();
  EXPECT_FALSE(waits.get());
  ASSERT_TRUE(rails.ok());
  EXPECT_EQ(rails->size(), 2u);
  ASSERT_EQ(refused.size(), 1u);
  EXPECT_EQ(refused[0].port + " " + refused[0].reason, "mlx5_0 has not answered");
  EXPECT_TRUE(log.warned("device mlx5_0 has not answered in 10 s"));
}

// A peer is told of 64 rails. A 65th would have an index, but no place in that list.
TEST(Discovery, RailsBeyondTheBoundAreLeftOutByName) {
  FakeProvider provider;
  for (std::size_t i = 0; i < kRailsMax + 2; ++i) {
    provider.fakes.push_back(device(fmt::format("mlx5_{:02}", i),
                                    {ethernet_port({gid_of(3, fmt::format("10.0.{}.1", i))})}));
  }
  const LogCapture log;
  const Names found = names(provider);
  ASSERT_EQ(found.size(), kRailsMax);
  EXPECT_EQ(found.back(), "mlx5_63:1");
  EXPECT_TRUE(log.warned(
      "66 usable rails, at most 64 are used; mlx5_64:1 and those after it are left out"));
}

TEST(Discovery, RailIsFilledInWhole) {
  FakeProvider provider = two_devices();
  provider.fakes[0].entry.pci_path = "/sys/devices/pci0000:00/0000:02:00.0";
  provider.fakes[1].entry.pci_path = "/sys/devices/pci0000:00/0000:01:00.1";
  provider.fakes[1].entry.numa_node = 1;
  provider.fakes[1].ports[0].attr.lid = 9;
  provider.fakes[1].ports[0].attr.max_msg_sz = 1u << 30;
  provider.fakes[1].ports[0].gids[0].prefix_len = 30;
  const LogCapture log;
  const Result<std::vector<Rail>> rails = discover(provider, {});
  ASSERT_TRUE(rails.ok());
  const Rail& rail = rails->front();
  EXPECT_EQ(rail.info.device, "mlx5_0");
  EXPECT_EQ(rail.info.port, 1);
  EXPECT_EQ(rail.info.pci_path, provider.fakes[1].entry.pci_path);
  EXPECT_EQ(rail.info.address, "10.0.12.1/30");
  EXPECT_EQ(rail.info.guid, 0x1000u);
  EXPECT_EQ(rail.info.speed_mbps, 100'000u);
  EXPECT_EQ(rail.info.mtu, 4096u);
  EXPECT_EQ(rail.inline_bytes_max, 512u);
  EXPECT_EQ(rail.info.numa_node, 1);
  ASSERT_EQ(rail.gids.size(), 1u);
  EXPECT_EQ(rail.gids[0].index, 3);
  EXPECT_EQ(rail.gids[0].prefix_len, 30);
  EXPECT_EQ(rail.lid, 9);
  EXPECT_TRUE(rail.ethernet);
  EXPECT_EQ(rail.cq_entries_max, 4194303);
  EXPECT_EQ(rail.qp_wr_max, 32768);
  EXPECT_EQ(rail.message_bytes_max, 1u << 30);
  EXPECT_TRUE(log.said(LogLevel::Info,
                       "rail 0 mlx5_0:1: 10.0.12.1/30, RoCE v2 GID index 3, 100 Gb/s, MTU 4096, "
                       "NUMA node 1, PCI 0000:01:00.1"));
}

TEST(Discovery, ABondHasTheSpeedOfAllItsLegs) {
  FakeProvider provider = two_devices();
  provider.fakes[1].ports[0].whole_speed_mbps = 200'000;
  const Result<std::vector<Rail>> rails = discover(provider, {});
  ASSERT_TRUE(rails.ok());
  EXPECT_EQ(rails->at(0).info.speed_mbps, 200'000u);
  EXPECT_EQ(rails->at(1).info.speed_mbps, 100'000u);
}

TEST(Discovery, EveryAddressOfAPortIsKept) {
  FakeProvider provider;
  provider.fakes.push_back(
      device("a", {ethernet_port({gid_of(0, "fe80::1"), gid_of(2, "fd00::1"),
                                  gid_of(5, "10.0.12.1"), gid_of(9, "10.7.0.1")})}));
  for (std::size_t i = 0; i < 4; ++i)
    provider.fakes[0].ports[0].gids[i].prefix_len = 10 + static_cast<int>(i);
  const LogCapture log;
  const Result<std::vector<Rail>> rails = discover(provider, {});
  ASSERT_TRUE(rails.ok());
  EXPECT_EQ(rails->front().info.address, "10.0.12.1/12");
  EXPECT_TRUE(log.said(
      LogLevel::Info,
      "rail 0 a:1: 10.0.12.1/12, RoCE v2 GID index 5, 100 Gb/s, MTU 4096, NUMA node -1, PCI none"));
  EXPECT_TRUE(log.said(LogLevel::Detail,
                       "rail 0 a:1 also has 10.7.0.1/13 (GID index 9), fd00::1/11 (GID index 2)"));
}

TEST(Discovery, HcaGrammarChoosesDevicesAndPorts) {
  FakeProvider provider = two_devices();
  const auto with = [&](const char* hca) {
    Settings settings;
    settings.hca = hca;
    return names(provider, settings);
  };
  EXPECT_EQ(with("mlx5"), (Names{"mlx5_0:1", "mlx5_1:1", "mlx5_1:2"}));
  EXPECT_EQ(with("mlx5_1:2,mlx5_0"), (Names{"mlx5_0:1", "mlx5_1:2"}));
  EXPECT_EQ(with("=mlx5_1"), (Names{"mlx5_1:1", "mlx5_1:2"}));
  EXPECT_EQ(with("=mlx5"), Names{});
  EXPECT_EQ(with("^mlx5_1:1"), (Names{"mlx5_0:1", "mlx5_1:2"}));
  provider.opened.clear();
  EXPECT_EQ(with("^mlx5_1"), Names{"mlx5_0:1"});
  EXPECT_EQ(provider.opened, Names{"mlx5_0"}) << "an excluded device need not be opened";
}

TEST(Discovery, HcaGrammarAssignsRailsAndPlanes) {
  FakeProvider provider = two_devices();
  Settings settings;
  settings.hca = "=mlx5_0:1:7:1,mlx5_1:1:70000,mlx5_1::8:2";
  const Result<std::vector<Rail>> rails = discover(provider, settings);
  ASSERT_TRUE(rails.ok());
  ASSERT_EQ(rails->size(), 3u);
  using Numbers = std::pair<std::int16_t, std::int16_t>;
  const auto assigned = [&](std::size_t rail) {
    return Numbers((*rails)[rail].info.rail_id, (*rails)[rail].info.plane_id);
  };
  EXPECT_EQ(assigned(0), Numbers(7, 1));
  EXPECT_EQ(assigned(1), Numbers(kUnassigned, kUnassigned)) << "NCCL has 16 bits for it";
  EXPECT_EQ(assigned(2), Numbers(8, 2));
}

Names addresses(FakeProvider& provider, const Settings& settings) {
  Names texts;
  const Result<std::vector<Rail>> rails = discover(provider, settings);
  for (const Rail& rail : *rails) texts.push_back(rail.info.address);
  return texts;
}

TEST(Discovery, PrefixFromEntryThenSettingThenUsual) {
  FakeProvider provider;
  provider.fakes.push_back(device("a", {ethernet_port({gid_of(0, "10.0.12.1")})}));
  provider.fakes.push_back(device("b", {ethernet_port({gid_of(0, "2001:db8::1")})}));
  const LogCapture log;
  EXPECT_EQ(addresses(provider, {}), (Names{"10.0.12.1/24", "2001:db8::1/64"}));
  EXPECT_TRUE(log.said(LogLevel::Info, "NCCL_MESH_PREFIX_LEN", 2));
  Settings settings;
  settings.prefix_len = 48;
  EXPECT_EQ(addresses(provider, settings), (Names{"10.0.12.1/32", "2001:db8::1/48"}));
  provider.fakes[0].ports[0].gids[0].prefix_len = 31;
  provider.fakes[1].ports[0].gids[0].prefix_len = 127;
  EXPECT_EQ(addresses(provider, settings), (Names{"10.0.12.1/31", "2001:db8::1/127"}));
}

TEST(Discovery, ADevicesPlaceFollowsItsPciAddressWhateverIsDown) {
  FakeProvider provider;
  for (const char* name : {"mlx5_10", "mlx5_2", "mlx5_1"})
    provider.fakes.push_back(device(name, {ethernet_port({gid_of(0, "10.0.12.1")})}));
  const auto places = [&] {
    return device_places(std::vector<DeviceEntry>{provider.fakes[0].entry, provider.fakes[1].entry,
                                                  provider.fakes[2].entry});
  };
  EXPECT_EQ(places(), (std::vector<std::uint16_t>{2, 1, 0})) << "by name, as people count";
  provider.fakes[0].entry.pci_path = "/sys/devices/pci0000:80/0000:80:01.0/0000:81:00.0";
  provider.fakes[1].entry.pci_path = "/sys/devices/pci0000:00/0000:00:01.0/0000:01:00.1";
  provider.fakes[2].entry.pci_path = "/sys/devices/pci0000:ff/0000:01:00.0";
  EXPECT_EQ(places(), (std::vector<std::uint16_t>{2, 1, 0}));
  provider.fakes[2].ports[0].attr.state = IBV_PORT_DOWN;
  Settings settings;
  settings.hca = "mlx5_10";
  const Result<std::vector<Rail>> rails = discover(provider, settings);
  ASSERT_TRUE(rails.ok());
  ASSERT_EQ(rails->size(), 1u);
  EXPECT_EQ(rails->front().identity, 1u) << "the first that NCCL_IB_HCA allows";
}

TEST(Discovery, InfiniBandPortTakesGidZeroAndItsSubnetPrefix) {
  FakeProvider provider;
  testkit::FakePort port =
      ethernet_port({gid_of(0, "fe80::1", GidType::Ib), gid_of(1, "fe80::2", GidType::Ib)});
  port.attr.link_layer = IBV_LINK_LAYER_INFINIBAND;
  port.attr.lid = 17;
  provider.fakes.push_back(device("mlx5_0", {port}));
  const Result<std::vector<Rail>> rails = discover(provider, {});
  ASSERT_TRUE(rails.ok());
  EXPECT_FALSE(rails->front().ethernet);
  ASSERT_EQ(rails->front().gids.size(), 1u);
  EXPECT_EQ(rails->front().gids[0].index, 0);
  EXPECT_EQ(rails->front().gids[0].prefix_len, 64);
  EXPECT_EQ(rails->front().lid, 17);
}

class SiteRails : public testing::Test {
 protected:
  // By place mlx5_0:1 is rail 0 and mlx5_1:1 rail 1. NCCL_IB_HCA has assigned 7 to mlx5_10:1.
  SiteRails() : rails_(3) {
    const char* const devices[] = {"mlx5_0", "mlx5_1", "mlx5_10"};
    for (std::uint32_t i = 0; i < 3; ++i) {
      rails_[i].info.device = devices[i];
      rails_[i].info.name = rails_[i].info.device + ":1";
      rails_[i].info.port = 1;
      rails_[i].identity = i << 8 | 1;
    }
    rails_[2].info.rail_id = 7;
    rails_[2].identity = 1u << 31 | 7 << 15;
    settings_.site = "east";
  }

  // Returns a letter for each rail: L if it leaves the site.
  std::string leaving(const char* list) {
    settings_.site_rails = list;
    for (Rail& rail : rails_) rail.leaves_site = true;
    if (!mark_site_rails(rails_, settings_).ok()) return "refused";
    std::string text;
    for (const Rail& rail : rails_) text += rail.leaves_site ? 'L' : '-';
    return text;
  }

  std::vector<Rail> rails_;
  Settings settings_;
};

TEST_F(SiteRails, TheListIsOfNamesAsInNcclIbHcaOrOfNumbers) {
  EXPECT_EQ(leaving(""), "LLL");
  EXPECT_EQ(leaving("mlx5_1"), "-LL") << "a prefix";
  EXPECT_EQ(leaving("=mlx5_1"), "-L-");
  EXPECT_EQ(leaving("^=mlx5_1"), "L-L");
  EXPECT_EQ(leaving("mlx5_0:1"), "L--");
  EXPECT_EQ(leaving("1,7"), "-LL");
  EXPECT_EQ(leaving("^0"), "-LL");
}

TEST_F(SiteRails, ARailThatDoesNotExistIsNamedBesideThoseThatDo) {
  const LogCapture log;
  EXPECT_EQ(leaving("0,mlx5_3"), "refused");
  EXPECT_EQ(leaving("mlx5_0:2"), "refused");
  EXPECT_EQ(leaving("2"), "refused");
  for (const char* empty : {"0,,1", ",0", "^", "="}) EXPECT_EQ(leaving(empty), "refused") << empty;
  EXPECT_TRUE(
      log.warned("NCCL_MESH_SITE_RAILS: 'mlx5_3' names no rail of this host, which has mlx5_0:1 "
                 "(rail 0), mlx5_1:1 (rail 1), mlx5_10:1 (rail 7)"));
}

TEST_F(SiteRails, WithoutASiteTheyAreRefused) {
  settings_.site.clear();
  const LogCapture log;
  EXPECT_EQ(leaving("0"), "refused");
  EXPECT_TRUE(log.warned("NCCL_MESH_SITE_RAILS=0 says"));
}

}  // namespace
}  // namespace mesh::verbs

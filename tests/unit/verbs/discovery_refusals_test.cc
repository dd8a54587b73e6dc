// The log lines of discovery when it finds no rail.
#include "src/verbs/discovery.h"

#include "tests/prelude.h"
#include "tests/unit/base/log_capture.h"
#include "tests/unit/verbs/fake_provider.h"

namespace mesh::verbs {
namespace {

using mesh::testkit::LogCapture, testkit::device, testkit::ethernet_port, testkit::FakeProvider,
    testkit::gid_of, testkit::two_devices;

testkit::FakePort port_down(const std::string& address) {
  testkit::FakePort port = ethernet_port({gid_of(3, address)});
  port.gids[0].prefix_len = 24;
  port.attr.state = IBV_PORT_DOWN;
  return port;
}

TEST(DiscoveryRefusals, OneLineSaysWhyEachPortFellOut) {
  FakeProvider provider;
  provider.fakes.push_back(device(
      "a", {port_down("10.0.12.1"), ethernet_port({gid_of(0, "10.0.0.1", GidType::RoceV1)})}));
  provider.fakes.push_back(device("b", {}));
  provider.fakes.back().opens = false;
  provider.fakes.push_back(device("c", {ethernet_port({gid_of(3, "10.0.12.1")})}));
  Settings settings;
  settings.hca = "^c";
  settings.gdr = "off";
  const LogCapture log;
  std::vector<RefusedPort> refused;
  EXPECT_EQ(discover(provider, settings, &refused).code(), Errc::NotFound);
  ASSERT_EQ(refused.size(), 4u);
  const RefusalKind kinds[]{RefusalKind::LeftOut, RefusalKind::Down, RefusalKind::NoAddress,
                            RefusalKind::Unusable};
  const char* const ports[]{"c", "a:1", "a:2", "b"};
  for (std::size_t i = 0; i < refused.size(); ++i) {
    EXPECT_EQ(refused[i].port, ports[i]);
    EXPECT_EQ(refused[i].kind, kinds[i]) << refused[i].port;
  }
  ASSERT_EQ(log.all().size(), 1u) << log.joined();
  EXPECT_EQ(log.all()[0].level, LogLevel::Info);
  for (const char* part : {"host-a", "fake", "a:1 is down", "a:2 has no RoCE v2 GID among 1",
                           "b cannot be opened (Permission denied)", "c left out by NCCL_IB_HCA"})
    EXPECT_NE(log.joined().find(part), std::string::npos) << part << " not in " << log.joined();
  EXPECT_EQ(provider.open_now, 0);
}

// NCCL fails then, and shows at NCCL_DEBUG=WARN only that it could not initialize the plugin.
TEST(DiscoveryRefusals, ThatThereIsNoRailIsAWarningWhereTheUserWantsThisNetwork) {
  for (const char* const net : {"Mesh", "mesh", "IB"}) {
    FakeProvider provider;
    Settings settings;
    settings.net = net;
    const LogCapture log;
    EXPECT_EQ(discover(provider, settings).code(), Errc::NotFound);
    EXPECT_TRUE(log.warned("no usable rail on host-a", net[0] == 'I' ? 0 : 1));
  }
}

TEST(DiscoveryRefusals, MissingGidIndexIsNamedAndCountsAsUnset) {
  FakeProvider provider = two_devices();
  Settings settings;
  settings.gid_index = 5;
  const LogCapture log;
  const Result<std::vector<Rail>> rails = discover(provider, settings);
  ASSERT_TRUE(rails.ok());
  EXPECT_EQ(rails->size(), 3u);
  EXPECT_TRUE(log.warned("has no GID at NCCL_IB_GID_INDEX 5 (1 in use)", 3));
}

TEST(DiscoveryRefusals, AWishThatNoGidFulfilsIsOneWarningPerPort) {
  FakeProvider provider = two_devices();
  Settings settings;
  settings.addr_range = "172.16.0.0/12";
  const LogCapture log;
  const Result<std::vector<Rail>> rails = discover(provider, settings);
  ASSERT_TRUE(rails.ok());
  EXPECT_TRUE(log.warned("NCCL_IB_ADDR_RANGE", static_cast<int>(rails->size())));
}

TEST(DiscoveryRefusals, AListThatNamesNothingIsToldWhatThereIs) {
  FakeProvider provider = two_devices();
  Settings settings;
  settings.hca = "=mlx5_77";
  const LogCapture log;
  EXPECT_EQ(discover(provider, settings).code(), Errc::NotFound);
  ASSERT_EQ(log.all().size(), 1u) << log.joined();
  EXPECT_EQ(log.all()[0].level, LogLevel::Warn);
  for (const DeviceEntry& device : provider.devices())
    EXPECT_NE(log.joined().find(device.name), std::string::npos) << log.joined();
  EXPECT_NE(log.joined().find("NCCL_IB_HCA==mlx5_77 leaves no port"), std::string::npos)
      << log.joined();
}

TEST(DiscoveryRefusals, APortWithoutALinkLayerIsNoRail) {
  FakeProvider provider = two_devices();
  provider.fakes[0].ports[1].attr.link_layer = IBV_LINK_LAYER_UNSPECIFIED;
  const LogCapture log;
  const Result<std::vector<Rail>> rails = discover(provider, {});
  ASSERT_TRUE(rails.ok());
  EXPECT_EQ(rails->size(), 2u);
  EXPECT_TRUE(
      log.said(LogLevel::Info, "ports not used: mlx5_1:2 is neither Ethernet nor InfiniBand"));
}

TEST(DiscoveryRefusals, ADeviceWithoutReliableQueuePairsIsNoRail) {
  FakeProvider provider = two_devices();
  provider.inline_bytes_max = 32;
  const LogCapture log;
  EXPECT_EQ(discover(provider, {}).code(), Errc::NotFound);
  EXPECT_TRUE(log.said(LogLevel::Info,
                       "mlx5_0:1 cannot create a reliable queue pair of 16 work requests with 64 "
                       "bytes inline: Invalid argument"));
  EXPECT_EQ(provider.open_now, 0);
}

TEST(DiscoveryRefusals, AGidIndexMeansNothingOnInfiniBand) {
  FakeProvider provider = two_devices();
  testkit::FakePort& port = provider.fakes[1].ports[0];
  port.attr.link_layer = IBV_LINK_LAYER_INFINIBAND;
  port.gids = {gid_of(0, "fe80::1", GidType::Ib)};
  Settings settings;
  settings.gid_index = 5;
  settings.hca = "mlx5_0";
  const LogCapture log;
  const Result<std::vector<Rail>> rails = discover(provider, settings);
  ASSERT_TRUE(rails.ok());
  ASSERT_EQ(rails->size(), 1u);
  EXPECT_EQ(rails->front().info.name, "mlx5_0:1");
  EXPECT_TRUE(log.warned("", 0));
}

TEST(DiscoveryRefusals, APartitionKeyThatAPortLacksIsNamed) {
  FakeProvider provider = two_devices();
  testkit::FakePort& port = provider.fakes[1].ports[0];
  port.attr.link_layer = IBV_LINK_LAYER_INFINIBAND;
  port.attr.pkey_tbl_len = 3;
  port.gids = {gid_of(0, "fe80::1", GidType::Ib)};
  port.pkeys = {0xffff, 0x8000, 0x0002};
  Settings settings;
  settings.hca = "mlx5_0";
  const auto usable = [&](int index) {
    settings.pkey_index = index;
    return discover(provider, settings).ok();
  };
  EXPECT_TRUE(usable(0));
  EXPECT_TRUE(usable(2));
  const LogCapture log;
  EXPECT_FALSE(usable(1)) << "an empty place";
  EXPECT_FALSE(usable(3));
  EXPECT_TRUE(log.said(LogLevel::Info, "mlx5_0:1 has no partition key at NCCL_IB_PKEY 3 of 3"));
  settings.pkey_value = 0x8002;
  const Result<std::vector<Rail>> rails = discover(provider, settings);
  ASSERT_TRUE(rails.ok()) << log.joined();
  EXPECT_EQ(rails->front().pkey_index, 2) << "the key counts, and not the index";
  settings.pkey_value = 0x8003;
  EXPECT_FALSE(usable(0));
  EXPECT_TRUE(log.said(LogLevel::Info,
                       "mlx5_0:1 has no partition key 0x8003 (NCCL_IB_PKEY_VALUE) among 3"));
  settings.hca = "mlx5_1";
  EXPECT_TRUE(usable(3)) << "RoCE ports have the default partition only";
}

TEST(DiscoveryRefusals, NoDeviceAtAllIsOneQuietLine) {
  FakeProvider provider;
  const LogCapture log;
  EXPECT_EQ(discover(provider, {}).code(), Errc::NotFound);
  ASSERT_EQ(log.all().size(), 1u);
  EXPECT_NE(log.joined().find("there is no device"), std::string::npos);
}

// The GIDs of an iWARP port say RoCE v1, and no address gives it one of RoCE v2.
TEST(DiscoveryRefusals, AnIWarpDeviceIsSaidToBeOne) {
  FakeProvider provider;
  provider.fakes.push_back(
      device("irdma0", {ethernet_port({gid_of(0, "10.0.0.1", GidType::RoceV1)})}));
  provider.fakes[0].entry.iwarp = true;
  const LogCapture log;
  std::vector<RefusedPort> refused;
  EXPECT_EQ(discover(provider, {}, &refused).code(), Errc::NotFound);
  ASSERT_EQ(refused.size(), 1u);
  EXPECT_EQ(refused[0].kind, RefusalKind::IWarp);
  EXPECT_TRUE(log.said(LogLevel::Info, "irdma0 speaks iWARP, and the plugin needs RoCE"));
}

// A user must be able to tell an address that is missing from a device that cannot be used.
TEST(DiscoveryRefusals, EachRefusalHasItsKind) {
  const auto kind = [](const std::function<void(FakeProvider&)>& spoil) {
    FakeProvider provider = two_devices();
    spoil(provider);
    std::vector<RefusedPort> refused;
    const LogCapture log;
    EXPECT_FALSE(discover(provider, {}, &refused).ok());
    return refused.empty() ? RefusalKind::Down : refused.front().kind;
  };
  EXPECT_EQ(kind([](FakeProvider& p) { p.cq_error = ENOMEM; }), RefusalKind::NoMemory);
  EXPECT_EQ(kind([](FakeProvider& p) { p.qp_error = EOPNOTSUPP; }), RefusalKind::Unusable);
  EXPECT_EQ(kind([](FakeProvider& p) { p.grants.max_inline_data = 32; }), RefusalKind::Limited);
  EXPECT_EQ(kind([](FakeProvider& p) {
              for (testkit::FakeDevice& device : p.fakes)
                for (testkit::FakePort& port : device.ports) port.gids.clear();
            }),
            RefusalKind::NoAddress);
}

}  // namespace
}  // namespace mesh::verbs

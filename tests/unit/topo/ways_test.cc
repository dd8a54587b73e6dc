#include "src/topo/ways.h"

#include "tests/prelude.h"
#include "tests/unit/base/log_capture.h"
#include "tests/unit/topo/hwloc_xml.h"

namespace mesh::topo {
namespace {

using testkit::HwlocXml, testkit::kGpuClass, testkit::kVgaClass;

// Describes a way as "PIX one switch 504", with "<= " before a width that is an upper bound.
std::string way_between(const HostParts& host, const std::string& from, const std::string& to) {
  const std::size_t end = part_named(host, to);
  for (const Way& way : ways_from(host, part_named(host, from))) {
    if (way.to != end) continue;
    return fmt::format("{} {} {}{:g}", nccl_class(way.kind), kind_text(way.kind),
                       way.at_most ? "<= " : "", way.gbps);
  }
  return "none";
}

// ---- The calculation, on parts that are joined by hand.

HostParts chain(int bridges) {
  HostParts host{.parts = {{.kind = PartKind::Device, .name = "nic"}}, .joints = {}};
  for (int i = 0; i < bridges; ++i) {
    host.parts.push_back({.kind = PartKind::Bridge, .name = "bridge"});
    host.joints.push_back({host.parts.size() - 2, host.parts.size() - 1, 100});
  }
  host.parts.push_back({.kind = PartKind::Device, .name = "gpu", .gpu = true});
  host.joints.push_back({host.parts.size() - 2, host.parts.size() - 1, 50});
  return host;
}

TEST(Ways, SwitchesAreCountedByTheirPorts) {
  EXPECT_EQ(way_between(chain(1), "nic", "gpu"), "PHB host bridge 50") << "functions of one card";
  EXPECT_EQ(way_between(chain(3), "nic", "gpu"), "PIX one switch 50");
  EXPECT_EQ(way_between(chain(5), "nic", "gpu"), "PXB several switches 50");
  EXPECT_EQ(way_between(chain(7), "nic", "gpu"), "PXB several switches 50");
}

// Two sockets with two links between them, one of them wide.
TEST(Ways, OfOneKindTheWidestIsTaken) {
  HostParts host{.parts = {{.kind = PartKind::Device, .name = "nic"},
                           {.kind = PartKind::HostBridge, .name = "bridge"},
                           {.kind = PartKind::Memory, .name = "memory"},
                           {.kind = PartKind::Package, .name = "package"},
                           {.kind = PartKind::Package, .name = "between"},
                           {.kind = PartKind::Package, .name = "far"}},
                 .joints = {{0, 1, 200}, {1, 2, kWide}, {2, 3, kWide}, {3, 5, 50}}};
  EXPECT_EQ(way_between(host, "nic", "far"), "SYS two sockets 50");
  host.joints.push_back({3, 4, 150});
  host.joints.push_back({4, 5, 300});
  EXPECT_EQ(way_between(host, "nic", "far"), "SYS two sockets 150");
  host.joints.push_back({4, 5, 0});
  EXPECT_EQ(way_between(host, "nic", "far"), "SYS two sockets 150") << "it is known";
}

TEST(Ways, ANearerKindGoesBeforeAWiderOne) {
  HostParts host = chain(3);
  host.parts.push_back({.kind = PartKind::HostBridge, .name = "host bridge"});
  const std::size_t bridge = host.parts.size() - 1;
  host.joints.push_back({0, bridge, 400});
  host.joints.push_back({bridge, part_named(host, "gpu"), 400});
  EXPECT_EQ(way_between(host, "nic", "gpu"), "PIX one switch 50");
}

TEST(Ways, WhatNothingLeadsToIsLeftOut) {
  HostParts host = chain(3);
  host.parts.push_back({.kind = PartKind::Memory, .name = "memory node 0"});
  EXPECT_EQ(way_between(host, "nic", "memory node 0"), "none");
  EXPECT_TRUE(ways_from(host, SIZE_MAX).empty());
  EXPECT_EQ(part_named(host, "nobody"), SIZE_MAX);
}

TEST(Ways, AWayOfUnknownWidthSaysSo) {
  HostParts host = chain(3);
  host.joints.back().gbps = 0;
  EXPECT_EQ(way_between(host, "nic", "gpu"), "PIX one switch <= 100");
}

// ---- Hosts that hwloc reads.

class HostPartsTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!read_host_parts().ok()) GTEST_SKIP() << "libhwloc.so.15 is not on this machine";
  }
  void read(const std::string& xml) {
    Result<HostParts> found = read_host_parts({.xml = xml});
    ASSERT_TRUE(found.ok()) << xml;
    host_ = std::move(*found);
  }
  std::string way(const std::string& from, const std::string& to) const {
    return way_between(host_, from, to);
  }

  HostParts host_;
};
constexpr double kGen4x16 = 31.5, kGen5x16 = 63, kGen5x4 = 15.75;

// Makes a switch with two GPUs and two NICs, all at Gen5 x16, whose own link is Gen4. `bus` is the
// first digit of the bus numbers.
std::string branch(HwlocXml& xml, char bus) {
  const auto at = [bus](const char* rest) { return fmt::format("0000:{}{}", bus, rest); };
  std::string below;
  for (const char place : {'2', '3', '4', '5'}) {
    const bool gpu = place < '4';
    const std::string port = fmt::format("0000:{}1:0{}.0", bus, place);
    const std::string function = fmt::format("0000:{}{}:00.0", bus, place);
    below += xml.bridge({port.c_str(), kGen5x16},
                        xml.device({.address = function.c_str(),
                                    .pci_class = gpu ? kGpuClass : testkit::kNicClass,
                                    .gbytes_per_s = kGen5x16,
                                    .os_name = gpu ? "cuda0" : ""}));
  }
  return xml.bridge({at("0:01.0").c_str(), kGen4x16},
                    xml.bridge({at("1:00.0").c_str(), kGen4x16}, below));
}

// Two sockets with two host bridges each, and a switch below each: eight NICs and eight GPUs.
TEST_F(HostPartsTest, AServerOfTwoSocketsWithEightNicsAndGpusBehindSwitches) {
  HwlocXml xml(2);
  const std::string first =
      xml.host_bridge("0000", branch(xml, '1')) + xml.host_bridge("0000", branch(xml, '3'));
  const std::string second =
      xml.host_bridge("0000", branch(xml, '5')) + xml.host_bridge("0000", branch(xml, '7'));
  read(xml.host(first, second));
  const std::string nic = "0000:14:00.0";
  EXPECT_EQ(way(nic, "0000:12:00.0"), "PIX one switch 504");
  EXPECT_EQ(way(nic, "0000:13:00.0"), "PIX one switch 504");
  EXPECT_EQ(way(nic, "CPU package 0"), "PHB host bridge 252") << "the switch's own link";
  EXPECT_EQ(way(nic, "memory node 0"), "PHB host bridge 252");
  EXPECT_EQ(way(nic, "0000:32:00.0"), "PHB two host bridges 252");
  EXPECT_EQ(way(nic, "CPU package 1"), "SYS two sockets <= 252");
  EXPECT_EQ(way(nic, "memory node 1"), "SYS two sockets <= 252");
  EXPECT_EQ(way(nic, "0000:52:00.0"), "SYS two sockets <= 252");
  EXPECT_EQ(way("0000:75:00.0", "0000:73:00.0"), "PIX one switch 504");
  EXPECT_EQ(way("0000:75:00.0", "memory node 0"), "SYS two sockets <= 252");
  EXPECT_EQ(ways_from(host_, part_named(host_, nic)).size(), 12u) << "2 packages, 2 nodes, 8 GPUs";
}

// One socket and one memory node. Each half of the NIC, and the GPU, has its own PCI domain.
TEST_F(HostPartsTest, ASmallHostOfOneSocketWithTwoHalvesOfANic) {
  HwlocXml xml(1);
  std::string trees;
  for (const char* domain : {"0000", "0002"}) {
    const std::string port = fmt::format("{}:00:00.0", domain);
    std::string functions;
    for (const char* end : {":01:00.0", ":01:00.1"}) {
      const std::string address = domain + std::string(end);
      functions += xml.device({.address = address.c_str(), .gbytes_per_s = kGen5x4});
    }
    trees += xml.host_bridge(domain, xml.bridge({port.c_str(), kGen5x4}, functions));
  }
  trees +=
      xml.host_bridge("000f", xml.bridge({"000f:00:00.0"}, xml.device({.address = "000f:01:00.0",
                                                                       .pci_class = kGpuClass,
                                                                       .os_name = "cuda0"})));
  read(xml.host(trees));
  for (const char* nic : {"0000:01:00.0", "0000:01:00.1", "0002:01:00.0", "0002:01:00.1"}) {
    EXPECT_EQ(way(nic, "memory node 0"), "PHB host bridge 126") << nic;
    EXPECT_EQ(way(nic, "CPU package 0"), "PHB host bridge 126") << nic;
    EXPECT_EQ(way(nic, "000f:01:00.0"), "PHB two host bridges <= 126") << nic;
  }
  EXPECT_EQ(host_.parts[part_named(host_, "000f:01:00.0")].os_name, "cuda0");
}

TEST_F(HostPartsTest, SwitchesInARowAndDisplaysOfManagementControllers) {
  HwlocXml xml(1);
  const std::string gpu = xml.bridge(
      {"0000:02:01.0", kGen4x16},
      xml.device({.address = "0000:05:00.0", .pci_class = kGpuClass, .gbytes_per_s = kGen4x16}));
  const std::string below =
      xml.bridge({"0000:03:00.0", kGen4x16},
                 xml.bridge({"0000:04:00.0", kGen4x16},
                            xml.device({.address = "0000:06:00.0", .gbytes_per_s = kGen4x16})));
  const std::string vga = xml.device(
      {.address = "0000:07:00.0", .pci_class = kVgaClass, .os_name = "card0", .vendor = "1a03"});
  const std::string top = xml.bridge(
      {"0000:00:01.0", kGen4x16},
      xml.bridge({"0000:01:00.0", kGen4x16}, gpu + xml.bridge({"0000:02:02.0", kGen4x16}, below)));
  read(xml.host(xml.host_bridge("0000", top + vga)));
  EXPECT_EQ(way("0000:06:00.0", "0000:05:00.0"), "PXB several switches 252");
  EXPECT_EQ(way("0000:06:00.0", "0000:07:00.0"), "none") << "nobody computes on it";
}

// The firmware does not tell the socket of a host bridge.
TEST_F(HostPartsTest, AHostBridgeOfNoSocketIsNearToAll) {
  HwlocXml xml(2);
  const std::string tree = xml.host_bridge(
      "0000", xml.bridge({"0000:00:01.0", kGen4x16},
                         xml.device({.address = "0000:01:00.0", .gbytes_per_s = kGen4x16})));
  read(xml.host(std::string(), std::string(), tree));
  EXPECT_EQ(way("0000:01:00.0", "memory node 0"), "PHB host bridge 252");
  EXPECT_EQ(way("0000:01:00.0", "memory node 1"), "PHB host bridge 252");
}

TEST(HostParts, WithoutHwlocThereIsNoAnswer) {
  const testkit::LogCapture log;
  EXPECT_EQ(read_host_parts({.hwloc_library = "libhwloc-of-nobody.so.15"}).code(), Errc::NotFound);
  EXPECT_TRUE(log.said(LogLevel::Info, "libhwloc-of-nobody.so.15 does not load"));
}

TEST(HostParts, WhatIsNoTopologyGivesNoAnswer) {
  EXPECT_EQ(read_host_parts({.xml = "<topology"}).code(), Errc::NotFound);
}

// The test runs on whatever host this machine is.
TEST(HostParts, ThisHostIsRead) {
  const Result<HostParts> host = read_host_parts();
  if (!host.ok()) GTEST_SKIP() << "libhwloc.so.15 is not on this machine";
  EXPECT_FALSE(host->parts.empty());
  for (std::size_t i = 0; i < host->parts.size(); ++i) ways_from(*host, i);
}

}  // namespace
}  // namespace mesh::topo

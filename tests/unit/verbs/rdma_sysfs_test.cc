// The facts about bonds and virtual functions that the kernel tells in sysfs.
#include "src/verbs/rdma_sysfs.h"

#include "tests/prelude.h"
#include "tests/unit/base/folder.h"

namespace mesh::verbs {
namespace {

TEST(RdmaSysfs, GuidsAreSixteenDigits) {
  EXPECT_EQ(parse_guid("0015:5dff:fe33:ff42"), 0x00155dfffe33ff42u);
  for (const char* bad : {"", "0015:5dff:fe33", "0015:5dff:fe33:ff421", "zz15:5dff:fe33:ff42"})
    EXPECT_EQ(parse_guid(bad), 0u) << bad;
}

class RdmaSysfsTest : public testing::Test {
 protected:
  void write(const std::string& file, const std::string& text) const {
    folder_.write(file, text + "\n");
  }
  RdmaSysfs sysfs() const { return RdmaSysfs(folder_.root()); }

  mesh::testkit::Folder folder_;
};

TEST_F(RdmaSysfsTest, ADeviceOverABondHasTheBondsSpeed) {
  write("class/infiniband/mlx5_bond_0/ports/1/gid_attrs/ndevs/0", "bond0");
  write("class/net/bond0/bonding/mode", "802.3ad 4");
  write("class/net/bond0/speed", "200000");
  EXPECT_EQ(sysfs().bond_speed_mbps("mlx5_bond_0", 1), 200'000u);
  write("class/net/bond0/speed", "-1");
  EXPECT_EQ(sysfs().bond_speed_mbps("mlx5_bond_0", 1), 0u) << "unknown";
}

TEST_F(RdmaSysfsTest, OtherPortsKnowTheirSpeedThemselves) {
  write("class/infiniband/mlx5_0/ports/1/gid_attrs/ndevs/0", "eth0");
  write("class/net/eth0/speed", "100000");
  EXPECT_EQ(sysfs().bond_speed_mbps("mlx5_0", 1), 0u);
  EXPECT_EQ(sysfs().bond_speed_mbps("mlx5_9", 1), 0u);
}

TEST_F(RdmaSysfsTest, TheTypeOfItsNodeTellsAnIWarpDevice) {
  write("class/infiniband/irdma0/node_type", "4: RNIC");
  write("class/infiniband/mlx5_0/node_type", "1: CA");
  EXPECT_TRUE(sysfs().device("irdma0").iwarp);
  EXPECT_FALSE(sysfs().device("mlx5_0").iwarp);
  EXPECT_FALSE(sysfs().device("mlx5_9").iwarp);
}

TEST_F(RdmaSysfsTest, AVirtualFunctionSharesThePortOfItsPhysicalOne) {
  const std::string bus = "devices/pci0000:00/0000:00:01.0/";
  for (const char* name : {"mlx5_0", "mlx5_1", "mlx5_2"})
    write(std::string("class/infiniband/") + name + "/sys_image_guid", "4cbb:4703:00a1:b2c3");
  folder_.link("class/infiniband/mlx5_0/device", bus + "0000:01:00.0");
  folder_.link("class/infiniband/mlx5_1/device", bus + "0000:01:00.1");
  folder_.link("class/infiniband/mlx5_2/device", bus + "0000:01:01.0");
  folder_.link(bus + "0000:01:01.0/physfn", bus + "0000:01:00.1");
  const DeviceEntry physical = sysfs().device("mlx5_1"), part = sysfs().device("mlx5_2");
  EXPECT_TRUE(physical.physical_path.empty());
  EXPECT_EQ(part.physical_path, physical.pci_path);
  EXPECT_EQ(part.guid, physical.guid) << "one wire";
  EXPECT_NE(part.guid, sysfs().device("mlx5_0").guid) << "whose function has the same number";
}

// Two functions of a card in a slot of four lanes, which the root port shows, too.
TEST_F(RdmaSysfsTest, TheNarrowestLinkToTheRootIsTheSlot) {
  const std::string bus = "devices/pci0000:00/0000:00:01.0/";
  for (const char* function : {"", "0000:01:00.0/", "0000:01:00.1/"}) {
    write(bus + function + "current_link_speed", "32.0 GT/s PCIe");
    write(bus + function + "current_link_width", "4");
  }
  folder_.link("class/infiniband/mlx5_0/device", bus + "0000:01:00.0");
  folder_.link("class/infiniband/mlx5_1/device", bus + "0000:01:00.1");
  EXPECT_EQ(sysfs().device("mlx5_0").slot, "0000:00:01");
  EXPECT_EQ(sysfs().device("mlx5_1").slot, "0000:00:01");
  EXPECT_EQ(sysfs().device("mlx5_1").slot_mbps, 109'016u);
  write(bus + "0000:01:00.1/current_link_width", "2");  // a link of its own is narrower
  EXPECT_EQ(sysfs().device("mlx5_1").slot, "0000:01:00");
  EXPECT_EQ(sysfs().device("mlx5_1").slot_mbps, 54'508u);
}

TEST_F(RdmaSysfsTest, ASlotThatTheKernelDoesNotTellIsNotKnown) {
  const std::string bus = "devices/pci0000:00/0000:01:00.0/";
  folder_.link("class/infiniband/mlx5_0/device", bus);
  for (const auto& [speed, width] : {std::pair{"Unknown", "0"},
                                     {"8.0 GT/s PCIe", "63"},
                                     {"nan", "4"},
                                     {"1e9", "4"},
                                     {"-8", "4"},
                                     {"8.0 GT/s", "x"}}) {
    write(bus + "current_link_speed", speed);
    write(bus + "current_link_width", width);
    EXPECT_EQ(sysfs().device("mlx5_0").slot_mbps, 0u) << speed << " x" << width;
  }
  write(bus + "current_link_speed", "5.0 GT/s PCIe");
  write(bus + "current_link_width", "8");
  EXPECT_EQ(sysfs().device("mlx5_0").slot_mbps, 27'680u) << "8 of 10 bits";
}

}  // namespace
}  // namespace mesh::verbs

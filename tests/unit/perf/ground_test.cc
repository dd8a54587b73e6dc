#include "perf/mesh_perf/ground.h"

#include "tests/prelude.h"
#include "tests/unit/base/folder.h"

namespace mesh::perf {
namespace {

TEST(Ground, SaysWhatTheFiguresAreWorth) {
  EXPECT_EQ((Ground{.device = {}, .software_fabric = {}}.sentence()), "rdma");
  EXPECT_EQ((Ground{.device = {}, .software_fabric = {}, .soft_roce = true}.sentence()),
            "rdma (soft-RoCE)");
  EXPECT_EQ((Ground{.device = {}, .software_fabric = {}, .soft_roce = true, .other_rdma = true}
                 .sentence()),
            "rdma (some rails soft-RoCE)");
  EXPECT_EQ(
      (Ground{.device = {}, .software_fabric = {}, .soft_roce = true, .emulated = true}.sentence()),
      "rdma (soft-RoCE, emulated)");
  EXPECT_EQ((Ground{.device = {}, .software_fabric = {}, .emulated = true}.sentence()),
            "rdma (emulated)");
  EXPECT_EQ((Ground{.device = {}, .software_fabric = "pair.json", .emulated = true}.sentence()),
            "software fabric on this host, not RDMA (pair.json)");
}

// Makes a tree like /sys/class/infiniband.
class SoftRoce : public testing::Test {
 protected:
  void add(const std::string& file) const { folder_.write(file, "x\n"); }
  std::string kinds(const std::vector<std::string>& devices) const {
    return kinds_of(devices, folder_.root());
  }
  bool found(const std::string& device) const { return is_soft_roce(device, folder_.root()); }

 private:
  const testkit::Folder folder_;
};

TEST_F(SoftRoce, IsKnownByItsNetDeviceWhateverItIsCalled) {
  add("rocep1s0/parent");
  add("rocep1s0/node_guid");
  EXPECT_TRUE(found("rocep1s0"));
}

// Each rank tells the kinds of its rails, and every rank sees the kinds of all.
TEST_F(SoftRoce, OnSomeRailsOnlyIsSaidSo) {
  add("mlx5_0/device/vendor");
  add("rocep1s0/parent");
  const auto sentence = [this](const std::vector<std::string>& first,
                               const std::vector<std::string>& second) {
    Ground ground;
    add_kinds({kinds(first), kinds(second) + "e"}, ground);
    return ground.sentence();
  };
  EXPECT_EQ(sentence({"rocep1s0", "rocep1s0"}, {"rocep1s0"}), "rdma (soft-RoCE, emulated)");
  EXPECT_EQ(sentence({"mlx5_0", "mlx5_0"}, {"mlx5_0", "rocep1s0"}),
            "rdma (some rails soft-RoCE, emulated)");
  EXPECT_EQ(sentence({"rocep1s0"}, {"mlx5_0"}), "rdma (some rails soft-RoCE, emulated)");
  EXPECT_EQ(sentence({"mlx5_0"}, {"mlx5_0"}), "rdma (emulated)");
}

TEST_F(SoftRoce, WithoutThatFileByNameAndMissingBus) {
  add("rxe0/node_guid");
  add("rxe1/device/vendor");
  add("siw0/node_guid");
  EXPECT_TRUE(found("rxe0"));
  EXPECT_FALSE(found("rxe1"));
  EXPECT_FALSE(found("siw0"));
}

TEST_F(SoftRoce, AdapterOrNothingIsNone) {
  add("mlx5_0/device/vendor");
  EXPECT_FALSE(found("mlx5_0"));
  EXPECT_FALSE(found("rxe7"));
  EXPECT_FALSE(found(""));
}

}  // namespace
}  // namespace mesh::perf

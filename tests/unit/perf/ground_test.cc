#include "perf/mesh_perf/ground.h"

#include "perf/mesh_perf/report.h"
#include "tests/prelude.h"
#include "tests/unit/base/folder.h"

namespace mesh::perf {
namespace {

TEST(Ground, SaysWhatTheFiguresAreWorth) {
  Ground ground{.device = {}, .software_fabric = {}};
  EXPECT_EQ(ground.sentence(), "rdma");
  ground.soft_roce = true;
  EXPECT_EQ(ground.sentence(), "rdma (soft-RoCE)");
  ground.software_fabric = "pair.json";
  ground.emulated = true;
  EXPECT_EQ(ground.sentence(), "software fabric on this host, not RDMA (pair.json)");
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

TEST_F(SoftRoce, IsKnownByItsNetDeviceOrByNameAndMissingBus) {
  for (const char* const file :
       {"rocep1s0/parent", "rxe0/node_guid", "rxe1/device/vendor", "siw0/node_guid"})
    add(file);
  for (const char* const device : {"rocep1s0", "rxe0"}) EXPECT_TRUE(found(device)) << device;
  for (const char* const device : {"rxe1", "siw0", "rxe7", ""})
    EXPECT_FALSE(found(device)) << device;
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

// The time of a round has the pause behind it, and no column of a latency may have that.
TEST(Report, TheMeanOfLatenciesLeavesOutThePauses) {
  Options options;
  options.kind = Kind::Latency;
  options.pause_ms = 100;
  Row row;
  row.bytes = 8;
  row.time_us = 100'006;
  row.latency_us = results::latency_of({1, 2, 6});
  testing::internal::CaptureStdout();
  print_row(options, row);
  EXPECT_EQ(testing::internal::GetCapturedStdout(),
            "           8          3      1.00      2.00      3.00      6.00      6.00    N/A\n");
}

}  // namespace
}  // namespace mesh::perf

#include "perf/driver/soft_fabric.h"

#include "tests/prelude.h"

namespace mesh::driver {
namespace {

const std::string kFabrics = MESH_FABRIC_DIR;

TEST(SoftFabric, KnowsTheHostsOfAFile) {
  const Result<SoftFabric> fabric = SoftFabric::open(kFabrics + "/pair.json", {});
  ASSERT_TRUE(fabric.ok());
  EXPECT_EQ(fabric->hosts(), (std::vector<std::string>{"a", "b"}));
}

TEST(SoftFabric, RanksOfAHostFollowOneAnother) {
  const Result<SoftFabric> fabric = SoftFabric::open(kFabrics + "/pair.json", {"b", "a"}, 2);
  ASSERT_TRUE(fabric.ok());
  EXPECT_EQ(fabric->hosts(), (std::vector<std::string>{"b", "b", "a", "a"}));
  const auto third = fabric->environment(3);
  for (const std::pair<std::string, std::string>& wanted :
       {std::pair<std::string, std::string>("NCCL_MESH_HOST", "a"),
        {"LOCAL_RANK", "1"},
        {"LOCAL_WORLD_SIZE", "2"}})
    EXPECT_EQ(std::count(third.begin(), third.end(), wanted), 1) << wanted.first;
}

// Figures on a null fabric would look like figures of the software fabric.
TEST(SoftFabric, RefusesANullFabric) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(SoftFabric::open(kFabrics + "/null.json", {}).code(), Errc::InvalidArgument);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("moves no data"), std::string::npos);
}

TEST(SoftFabric, RefusesAHostThatIsNotThere) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(SoftFabric::open(kFabrics + "/pair.json", {"c"}).code(), Errc::NotFound);
  EXPECT_NE(
      testing::internal::GetCapturedStderr().find("host 'c' is not one of the fabric file's: a, b"),
      std::string::npos);
}

}  // namespace
}  // namespace mesh::driver

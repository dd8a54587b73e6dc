#include "src/base/nccl_conf.h"

#include "tests/prelude.h"
#include "tests/unit/base/folder.h"
#include "tests/unit/base/loaded_settings.h"

namespace mesh {
namespace {

class NcclConf : public testing::Test {
 protected:
  const testkit::Folder home_;
};

TEST(NcclConfLine, IsSplitAtTheFirstEqualsSign) {
  using Pair = std::pair<std::string, std::string>;
  EXPECT_EQ(read_conf_line("NCCL_IB_HCA==mlx5_0\r"), Pair("NCCL_IB_HCA", "=mlx5_0"));
  EXPECT_EQ(read_conf_line("NCCL_NET="), Pair("NCCL_NET", ""));
  EXPECT_EQ(read_conf_line("#NCCL_NET=IB"), std::nullopt);
  EXPECT_EQ(read_conf_line("no setting"), std::nullopt);
}

TEST_F(NcclConf, TheFileOfTheUserAddsWhatIsNotSet) {
  home_.write(".nccl.conf", "NCCL_IB_HCA=mlx5_1\n# no\nNCCL_NET=IB\nNCCL_DEBUG=INFO");
  const Environment whole =
      with_nccl_conf({{"HOME", home_.root()}, {"NCCL_NET", ""}, {"NCCL_DEBUG", "WARN"}});
  EXPECT_EQ(whole.at("NCCL_IB_HCA"), "mlx5_1");
  EXPECT_EQ(whole.at("NCCL_NET"), "") << "set and empty is set";
  EXPECT_EQ(whole.at("NCCL_DEBUG"), "WARN");
}

TEST_F(NcclConf, ANamedFileTakesThePlaceOfTheUsersOwn) {
  home_.write(".nccl.conf", "NCCL_IB_HCA=mlx5_1\n");
  const std::string named = home_.write("other", "NCCL_IB_TC=106\n");
  const Environment whole = with_nccl_conf({{"HOME", home_.root()}, {"NCCL_CONF_FILE", named}});
  EXPECT_EQ(whole.at("NCCL_IB_TC"), "106");
  EXPECT_FALSE(whole.contains("NCCL_IB_HCA"));
}

TEST_F(NcclConf, ASettingOfAFileIsToldWithItsFile) {
  const std::string own = home_.write(".nccl.conf", "NCCL_MESH_SLOTS=128\nNCCL_MESH_QPS=3\n");
  const std::string named = home_.write("other", "NCCL_IB_QPS_PER_CONNECTION=2\n");
  const auto told = [](const Environment& environment) {
    Environment files;
    const Environment whole = with_nccl_conf(environment, &files);
    return describe_settings(testkit::loaded(whole), whole, files);
  };
  const std::string text = told({{"HOME", home_.root()}, {"NCCL_MESH_QPS", "4"}});
  EXPECT_NE(text.find("(default 32, from " + own + ")"), std::string::npos) << text;
  EXPECT_NE(text.find("NCCL_MESH_QPS 4 queue pairs (default auto, from the environment)"),
            std::string::npos)
      << text;
  EXPECT_NE(told({{"NCCL_CONF_FILE", named}})
                .find("(default auto, from NCCL_IB_QPS_PER_CONNECTION in " + named + ")"),
            std::string::npos);
}

}  // namespace
}  // namespace mesh

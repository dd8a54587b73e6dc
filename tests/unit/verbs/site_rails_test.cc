#include "src/verbs/discovery.h"

#include "tests/unit/base/log_capture.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace mesh::verbs {
namespace {

using mesh::testkit::LogCapture;

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

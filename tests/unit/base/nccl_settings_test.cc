// NCCL's own settings: their syntax is NCCL's, and none of their values stops the plugin.

#include "tests/prelude.h"
#include "tests/unit/base/loaded_settings.h"
#include "tests/unit/base/log_capture.h"
#include "tests/unit/base/nccl_values.h"

namespace mesh {
namespace {

using testkit::loaded, testkit::LogCapture;

using testkit::kAcceptedByNccl, testkit::kCorrectedHere, testkit::NcclValue;

TEST(NcclSettings, EveryValueInRangeIsTakenAsNcclTakesIt) {
  for (const NcclValue& each : kAcceptedByNccl) {
    SCOPED_TRACE(std::string(each.variable) + "=" + each.text + " (" + each.source + ")");
    const LogCapture log;
    EXPECT_EQ(loaded({{each.variable, each.text}}).*each.member, each.expected);
    EXPECT_TRUE(log.all().empty()) << log.joined();
  }
}

TEST(NcclSettings, WhatIsOutOfRangeIsBroughtIntoItWithOneWarning) {
  for (const auto& [each, range] : kCorrectedHere) {
    SCOPED_TRACE(std::string(each.variable) + "=" + each.text + " (" + each.source + ")");
    const LogCapture log;
    EXPECT_EQ(loaded({{each.variable, each.text}}).*each.member, each.expected);
    ASSERT_EQ(log.all().size(), 1u) << log.joined();
    EXPECT_TRUE(log.warned(each.variable));
    EXPECT_TRUE(log.warned("'" + std::string(each.text) + "'"));
    EXPECT_TRUE(log.warned(range));
  }
}

TEST(NcclSettings, WhatIsUnsetIsNotGiven) {
  EXPECT_TRUE(loaded({{"NCCL_IB_TC", "-1"},
                      {"NCCL_IB_QPS_PER_CONNECTION", "-1"},
                      {"NCCL_IB_GID_INDEX", "none"}})
                  .given.empty());
  EXPECT_EQ(loaded({{"NCCL_IB_QPS_PER_CONNECTION", "64"}}).given,
            std::vector<std::string>{"NCCL_MESH_QPS"});
}

struct TextReading {
  const char* variable;
  const char* text;
  std::string Settings::*member;
  const char* expected;
  int warnings;
};

// NCCL accepts every text. If it cannot use a text, it goes on as if the variable were unset
// (ncclEnvSocketFamily, envIbAddrFamily and envIbAddrRange in its sources).
TEST(NcclSettings, TextsThatNcclIgnoresAreIgnoredWithAWarning) {
  const std::string long_list(100'000, 'm');
  const std::vector<TextReading> readings = {
      {"NCCL_SOCKET_FAMILY", "AF_INET", &Settings::socket_family, "AF_INET", 0},
      {"NCCL_SOCKET_FAMILY", "inet", &Settings::socket_family, "", 1},
      {"NCCL_IB_ADDR_FAMILY", "AF_INET6", &Settings::addr_family, "AF_INET6", 0},
      {"NCCL_IB_ADDR_FAMILY", "6", &Settings::addr_family, "", 1},
      {"NCCL_IB_ADDR_RANGE", "10.0.0.0/8", &Settings::addr_range, "10.0.0.0/8", 0},
      {"NCCL_IB_ADDR_RANGE", "fd00::/64", &Settings::addr_range, "fd00::/64", 0},
      {"NCCL_IB_ADDR_RANGE", "0.0.0.0/0", &Settings::addr_range, "0.0.0.0/0", 0},
      {"NCCL_IB_ADDR_RANGE", "10.0.0.1/32", &Settings::addr_range, "10.0.0.1/32", 0},
      {"NCCL_IB_ADDR_RANGE", "10.0.0.0/33", &Settings::addr_range, "", 1},
      {"NCCL_IB_ADDR_RANGE", "fd00::/129", &Settings::addr_range, "", 1},
      {"NCCL_IB_ADDR_RANGE", "10.0.0.0", &Settings::addr_range, "", 1},
      {"NCCL_IB_ADDR_RANGE", "ten/8", &Settings::addr_range, "", 1},
      {"NCCL_IB_HCA", "^=mlx5_0:1:0:1,,mlx5_1:x", &Settings::hca, "^=mlx5_0:1:0:1,,mlx5_1:x", 0},
      {"NCCL_IB_HCA", long_list.c_str(), &Settings::hca, long_list.c_str(), 0},
      {"NCCL_SOCKET_IFNAME", "=eth0", &Settings::socket_ifname, "=eth0", 0},
  };
  for (const TextReading& each : readings) {
    SCOPED_TRACE(std::string(each.variable) + "=" + std::string(each.text).substr(0, 40));
    const LogCapture log;
    EXPECT_EQ(loaded({{each.variable, each.text}}).*each.member, each.expected);
    EXPECT_TRUE(log.warned(each.variable, each.warnings));
    EXPECT_EQ(log.all().size(), static_cast<std::size_t>(each.warnings)) << log.joined();
  }
}

TEST(NcclSettings, ARangeOfAnotherFamilyIsIgnoredWithAWarning) {
  const LogCapture log;
  EXPECT_EQ(
      loaded({{"NCCL_IB_ADDR_RANGE", "fd00::/64"}, {"NCCL_IB_ADDR_FAMILY", "AF_INET"}}).addr_range,
      "");
  EXPECT_TRUE(log.warned("NCCL_IB_ADDR_RANGE: 'fd00::/64'"));
  EXPECT_EQ(
      loaded({{"NCCL_IB_ADDR_RANGE", "fd00::/64"}, {"NCCL_IB_ADDR_FAMILY", "AF_INET6"}}).addr_range,
      "fd00::/64");
  EXPECT_EQ(log.all().size(), 1u) << log.joined();
}

}  // namespace
}  // namespace mesh

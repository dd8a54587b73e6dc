// NCCL's own settings: their syntax is NCCL's, and none of their values stops the plugin. Its files
// of settings are read as NCCL reads them.

#include "src/base/nccl_conf.h"
#include "src/base/nccl_table.h"
#include "src/base/settings_table.h"
#include "tests/prelude.h"
#include "tests/unit/base/folder.h"
#include "tests/unit/base/loaded_settings.h"
#include "tests/unit/base/log_capture.h"

namespace mesh {
namespace {

using testkit::loaded, testkit::LogCapture;

// Values that NCCL's own transport accepts for its settings, each with the place in NCCL that says
// so.
struct NcclValue {
  const char* variable;
  const char* text;
  int Settings::*member;
  int expected;
  const char* source;  // the place in NCCL 2.30.7 that accepts this value, and how
};

// Values that set `member` to `expected` without a warning. Paths of NCCL's files are relative to
// its src/, or to docs/userguide/source/ for env.rst.
const std::vector<NcclValue> kAcceptedByNccl = {
    {"NCCL_IB_TC", "-1", &Settings::traffic_class, kAuto, "connect.cc NCCL_PARAM(IbTc): unset"},
    {"NCCL_IB_TC", "0", &Settings::traffic_class, 0, "env.rst NCCL_IB_TC"},
    {"NCCL_IB_TC", "106", &Settings::traffic_class, 106, "ibv_global_route.traffic_class: 8 bits"},
    {"NCCL_IB_TC", "0152", &Settings::traffic_class, 106, "misc/param.cc: strtoll, base 0"},
    {"NCCL_IB_TC", "0x6a", &Settings::traffic_class, 106, "misc/param.cc: strtoll, base 0"},
    {"NCCL_IB_TC", " 255", &Settings::traffic_class, 255, "misc/param.cc: strtoll skips blanks"},
    {"NCCL_IB_TC", "+8", &Settings::traffic_class, 8, "misc/param.cc: strtoll"},
    {"NCCL_IB_SL", "-1", &Settings::service_level, kAuto, "connect.cc NCCL_PARAM(IbSl): unset"},
    {"NCCL_IB_SL", "0", &Settings::service_level, 0, "env.rst NCCL_IB_SL"},
    {"NCCL_IB_SL", "15", &Settings::service_level, 15, "InfiniBand: 4 bits"},
    {"NCCL_IB_TIMEOUT", "0", &Settings::timeout, 0, "env.rst NCCL_IB_TIMEOUT: infinite"},
    {"NCCL_IB_TIMEOUT", "20", &Settings::timeout, 20, "connect.cc NCCL_PARAM(IbTimeout)"},
    {"NCCL_IB_TIMEOUT", "31", &Settings::timeout, 31, "env.rst NCCL_IB_TIMEOUT: 0-31"},
    {"NCCL_IB_RETRY_CNT", "0", &Settings::retry_count, 0, "env.rst NCCL_IB_RETRY_CNT: 0-7"},
    {"NCCL_IB_RETRY_CNT", "7", &Settings::retry_count, 7, "env.rst NCCL_IB_RETRY_CNT: 0-7"},
    {"NCCL_IB_GID_INDEX", "-1", &Settings::gid_index, kAuto, "env.rst NCCL_IB_GID_INDEX"},
    {"NCCL_IB_GID_INDEX", "-7", &Settings::gid_index, kAuto, "connect.cc: below 0 is dynamic"},
    {"NCCL_IB_GID_INDEX", "3", &Settings::gid_index, 3, "env.rst NCCL_IB_GID_INDEX"},
    {"NCCL_IB_GID_INDEX", "255", &Settings::gid_index, 255, "ibv_global_route.sgid_index: 8 bits"},
    {"NCCL_IB_PKEY", "0", &Settings::pkey_index, 0, "connect.cc NCCL_PARAM(IbPkey)"},
    {"NCCL_IB_PKEY", "65535", &Settings::pkey_index, 65535, "ibv_qp_attr.pkey_index: 16 bits"},
    {"NCCL_IB_ROCE_VERSION_NUM", "1", &Settings::roce_version, 1,
     "connect.cc ncclIbRoceGetVersionNum: 1 or 2"},
    {"NCCL_IB_ROCE_VERSION_NUM", "2", &Settings::roce_version, 2, "env.rst: the default"},
    {"NCCL_IB_ADAPTIVE_ROUTING", "-2", &Settings::adaptive_routing, kAuto,
     "net_ib/init.cc NCCL_PARAM(IbAdaptiveRouting): by the link layer"},
    {"NCCL_IB_ADAPTIVE_ROUTING", "-1", &Settings::adaptive_routing, kAuto, "as other settings"},
    {"NCCL_IB_ADAPTIVE_ROUTING", "0", &Settings::adaptive_routing, 0, "env.rst"},
    {"NCCL_IB_ADAPTIVE_ROUTING", "1", &Settings::adaptive_routing, 1, "env.rst"},
    {"NCCL_IB_AR_THRESHOLD", "-2", &Settings::ar_threshold, 8192,
     "p2p.cc NCCL_PARAM(IbArThreshold): unset"},
    {"NCCL_IB_AR_THRESHOLD", "0", &Settings::ar_threshold, 0, "env.rst: size in bytes"},
    {"NCCL_IB_AR_THRESHOLD", "2147483647", &Settings::ar_threshold, INT_MAX,
     "p2p.cc: compared with the size of a send, an int"},
    {"NCCL_IB_PCI_RELAXED_ORDERING", "0", &Settings::relaxed_ordering, 0, "env.rst"},
    {"NCCL_IB_PCI_RELAXED_ORDERING", "1", &Settings::relaxed_ordering, 1, "env.rst"},
    {"NCCL_IB_PCI_RELAXED_ORDERING", "2", &Settings::relaxed_ordering, 2, "env.rst"},
    {"NCCL_IB_ECE_ENABLE", "0", &Settings::ece, 0, "env.rst"},
    {"NCCL_IB_ECE_ENABLE", "1", &Settings::ece, 1, "env.rst"},
    {"NCCL_IB_QPS_PER_CONNECTION", "1", &Settings::qps, 1, "env.rst: 1 to 128"},
    {"NCCL_IB_QPS_PER_CONNECTION", "32", &Settings::qps, 32, "env.rst: 1 to 128"},
    {"NCCL_IB_QPS_PER_CONNECTION", "-1", &Settings::qps, kAuto, "as other settings"},
};

// Values that NCCL accepts and we correct. `member` becomes `expected`, and one warning names the
// variable, the text and the range.
struct NcclCorrection {
  NcclValue value;
  const char* range;
};
const std::vector<NcclCorrection> kCorrectedHere = {
    {{"NCCL_IB_QPS_PER_CONNECTION", "128", &Settings::qps, 32, "env.rst: 1 to 128"}, "1..32"},
    {{"NCCL_IB_QPS_PER_CONNECTION", "64", &Settings::qps, 32, "env.rst: 1 to 128"}, "1..32"},
    {{"NCCL_IB_RETRY_CNT", "13", &Settings::retry_count, 7, "misc/param.cc has no range"}, "0..7"},
    {{"NCCL_IB_TIMEOUT", "32", &Settings::timeout, 31, "env.rst: >= 32 is infinite"}, "0..31"},
    {{"NCCL_IB_TIMEOUT", "-3", &Settings::timeout, 0, "misc/param.cc has no range"}, "0..31"},
    {{"NCCL_IB_TC", "256", &Settings::traffic_class, 255, "misc/param.cc has no range"}, "0..255"},
    {{"NCCL_IB_TC", "4x", &Settings::traffic_class, 4, "misc/param.cc: strtoll"}, "0..255"},
    {{"NCCL_IB_TC", "08", &Settings::traffic_class, 0, "misc/param.cc: strtoll"}, "0..255"},
    {{"NCCL_IB_TC", "all", &Settings::traffic_class, kAuto, "misc/param.cc: strtoll"}, "0..255"},
    {{"NCCL_IB_TC", "auto", &Settings::traffic_class, kAuto, "misc/param.cc: strtoll"}, "0..255"},
    {{"NCCL_IB_SL", "16", &Settings::service_level, 15, "misc/param.cc has no range"}, "0..15"},
    {{"NCCL_IB_SL", "99999999999999999999", &Settings::service_level, kAuto,
      "misc/param.cc: the default above 64 bits"},
     "0..15"},
    {{"NCCL_IB_SL", "4294967296", &Settings::service_level, 15, "misc/param.cc has no range"},
     "0..15"},
    {{"NCCL_IB_GID_INDEX", "256", &Settings::gid_index, 255, "misc/param.cc has no range"},
     "0..255"},
    {{"NCCL_IB_PKEY", "65536", &Settings::pkey_index, 65535, "misc/param.cc has no range"},
     "0..65535"},
    {{"NCCL_IB_ROCE_VERSION_NUM", "3", &Settings::roce_version, 2, "misc/param.cc has no range"},
     "1..2"},
    {{"NCCL_IB_ROCE_VERSION_NUM", "0", &Settings::roce_version, 1, "misc/param.cc has no range"},
     "1..2"},
    {{"NCCL_IB_ADAPTIVE_ROUTING", "2", &Settings::adaptive_routing, 1, "init.cc: not 0 is on"},
     "0..1"},
    {{"NCCL_IB_AR_THRESHOLD", "99999999999", &Settings::ar_threshold, INT_MAX,
      "env.rst: above NCCL_BUFFSIZE it disables"},
     "0..2147483647"},
    {{"NCCL_IB_PCI_RELAXED_ORDERING", "3", &Settings::relaxed_ordering, 2,
      "misc/param.cc has no range"},
     "0..2"},
    {{"NCCL_IB_ECE_ENABLE", "2", &Settings::ece, 1, "connect.cc: not 0 is on"}, "0..1"},
};

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

TEST(NcclTable, HonouredAreExactlyThoseThatAreReadAndHaveAnEffect) {
  std::set<std::string_view> honoured;
  for (const NcclSetting& setting : nccl_table()) {
    if (setting.standing == Standing::Honoured) honoured.insert(setting.name);
  }
  std::set<std::string_view> read;
  for (const Setting& setting : settings_table()) {
    if (std::string_view(setting.doc).ends_with("No effect yet.")) continue;
    for (const char* name : {setting.name, setting.fallback}) {
      if (name != nullptr && std::string_view(name).starts_with("NCCL_IB_")) read.insert(name);
    }
  }
  EXPECT_EQ(honoured, read);
}

// NCCL 2.30.7 has 46 settings: each NCCL_PARAM whose name begins with IB_, and three texts (the HCA
// and two for addresses). Six more are known of 2.31.2 and 2.32.
TEST(NcclTable, NamesEachSettingOnceInOrder) {
  EXPECT_EQ(nccl_table().size(), 46u + 6u);
  std::string_view before;
  for (const NcclSetting& setting : nccl_table()) {
    EXPECT_LT(before, setting.name);
    before = setting.name;
  }
}

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
    return describe_settings(loaded(whole), whole, files);
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

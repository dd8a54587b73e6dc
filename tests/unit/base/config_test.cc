#include "src/base/config.h"

#include "src/base/settings_table.h"
#include "tests/prelude.h"
#include "tests/unit/base/folder.h"
#include "tests/unit/base/loaded_settings.h"
#include "tests/unit/base/log_capture.h"

namespace mesh {
namespace {

using testkit::loaded, testkit::LogCapture;

TEST(Config, EmptyEnvironmentGivesDefaultsWithoutAWord) {
  const LogCapture log;
  const Settings settings = loaded({});
  EXPECT_EQ(settings.qps, kAuto);
  EXPECT_EQ(settings.signal_interval, 16);
  EXPECT_EQ(settings.threads, kAuto);
  EXPECT_EQ(settings.wr_bytes, 524288);
  EXPECT_EQ(settings.fabric, "rdma");
  EXPECT_EQ(settings.timeout, 16);
  EXPECT_EQ(settings.stats, "");
  EXPECT_EQ(settings.stall_seconds, 30);
  EXPECT_TRUE(log.all().empty()) << log.joined();
}

TEST(Config, EveryKindOfValueArrives) {
  const Settings settings = loaded({{"NCCL_MESH_QPS", "32"},
                                    {"NCCL_MESH_THREADS", "auto"},
                                    {"NCCL_MESH_INLINE", "-1"},
                                    {"NCCL_MESH_SLOTS", "256"},
                                    {"NCCL_MESH_WR_BYTES", "1M"},
                                    {"NCCL_MESH_INFLIGHT_BYTES", "1g"},
                                    {"NCCL_MESH_STRIPE_BYTES", "128K"},
                                    {"NCCL_MESH_EXPRESS_BYTES", "0"},
                                    {"NCCL_MESH_FABRIC", "soft:/tmp/triangle.json"},
                                    {"NCCL_MESH_HOST", "a"},
                                    {"NCCL_HOSTID", "b"},
                                    {"NCCL_SOCKET_IFNAME", "^docker"},
                                    {"NCCL_SOCKET_FAMILY", "AF_INET6"},
                                    {"NCCL_IB_HCA", "=mlx5_0:1"},
                                    {"NCCL_IB_GID_INDEX", "3"},
                                    {"NCCL_IB_TC", "0x6a"},
                                    {"NCCL_IB_SL", "15"},
                                    {"NCCL_IB_TIMEOUT", "22"},
                                    {"NCCL_IB_RETRY_CNT", "7"},
                                    {"NCCL_MESH_STATS", "/var/%h-%p.prom:5"},
                                    {"NCCL_MESH_STALL_SECONDS", "0"},
                                    {"NCCL_MESH_LOG", "trace+time"}});
  EXPECT_EQ(settings.qps, 32);
  EXPECT_EQ(settings.threads, kAuto);
  EXPECT_EQ(settings.inline_bytes, kAuto);
  EXPECT_EQ(settings.slots, 256);
  EXPECT_EQ(settings.wr_bytes, 1 << 20);
  EXPECT_EQ(settings.inflight_bytes, 1 << 30);
  EXPECT_EQ(settings.stripe_bytes, 131072);
  EXPECT_EQ(settings.express_bytes, 0);
  EXPECT_EQ(settings.fabric, "soft:/tmp/triangle.json");
  EXPECT_EQ(settings.host, "a");
  EXPECT_EQ(settings.host_id, "b");
  EXPECT_EQ(settings.socket_ifname, "^docker");
  EXPECT_EQ(settings.socket_family, "AF_INET6");
  EXPECT_EQ(settings.hca, "=mlx5_0:1");
  EXPECT_EQ(settings.gid_index, 3);
  EXPECT_EQ(settings.traffic_class, 0x6a);
  EXPECT_EQ(settings.service_level, 15);
  EXPECT_EQ(settings.timeout, 22);
  EXPECT_EQ(settings.retry_count, 7);
  EXPECT_EQ(settings.stats, "/var/%h-%p.prom:5");
  EXPECT_EQ(settings.stall_seconds, 0);
  EXPECT_EQ(log_level_of(settings), LogLevel::Trace);
}

struct BadValue {
  const char* name;
  const char* value;
  const char* range;
};
class ConfigBadValue : public testing::TestWithParam<BadValue> {};

TEST_P(ConfigBadValue, FailsWithOneLineNamingValueAndRange) {
  const LogCapture log;
  const Result<Settings> settings = load_settings({{GetParam().name, GetParam().value}});
  EXPECT_EQ(settings.code(), Errc::InvalidArgument);
  ASSERT_EQ(log.all().size(), 1u) << log.joined();
  EXPECT_EQ(log.all()[0].level, LogLevel::Warn);
  for (const char* part : {GetParam().name, GetParam().value, GetParam().range})
    EXPECT_NE(log.all()[0].text.find(part), std::string::npos) << log.joined();
}

INSTANTIATE_TEST_SUITE_P(
    EachKind, ConfigBadValue,
    testing::Values(
        BadValue{"NCCL_MESH_QPS", "0", "1..32"}, BadValue{"NCCL_MESH_QPS", "33", "1..32"},
        BadValue{"NCCL_MESH_QPS", "4x", "1..32"}, BadValue{"NCCL_MESH_QPS", " 4", "1..32"},
        BadValue{"NCCL_MESH_QPS", "many", "1..32 or auto"},
        BadValue{"NCCL_MESH_QPS", "99999999999999999999", "1..32"},
        BadValue{"NCCL_MESH_QPS", "4294967300", "1..32"},
        BadValue{"NCCL_MESH_SLOTS", "33", "32..256, a power of two"},
        BadValue{"NCCL_MESH_SLOTS", "16", "a power of two"},
        BadValue{"NCCL_MESH_THREADS", "-2", "0..8 or auto"},
        BadValue{"NCCL_MESH_INLINE", "513", "0..512 or auto"},
        BadValue{"NCCL_MESH_WR_BYTES", "1T", "4K..1G"},
        BadValue{"NCCL_MESH_WR_BYTES", "2G", "4K..1G"},
        BadValue{"NCCL_MESH_WR_BYTES", "-4K", "4K..1G"},
        BadValue{"NCCL_MESH_WR_BYTES", "K", "4K..1G"},
        BadValue{"NCCL_MESH_WR_BYTES", "18014398509481988K", "4K..1G"},
        BadValue{"NCCL_MESH_STRIPE_BYTES", "1000", "a multiple of 128"},
        BadValue{"NCCL_MESH_FABRIC", "tcp", "rdma or soft:FILE"},
        BadValue{"NCCL_MESH_FABRIC", "soft:", "rdma or soft:FILE"},
        BadValue{"NCCL_MESH_SOFT_COPY", "fast", "auto, cma or cells"},
        BadValue{"NCCL_MESH_HOST", "a b", "a host name"},
        BadValue{"NCCL_MESH_RAILS", "some", "auto, asked or all"},
        BadValue{"NCCL_MESH_RELAY", "2", "0..1"},
        BadValue{"NCCL_MESH_RELAY_BYTES", "4096", "1M..64G"},
        BadValue{"NCCL_MESH_SITE", "a b", "1 to 64 ASCII characters, no space"},
        BadValue{"NCCL_MESH_SITE", "m\xc3\xbcnchen", "1 to 64 ASCII characters, no space"},
        BadValue{"NCCL_MESH_PREFIX_LEN", "129", "1..128 or auto"},
        BadValue{"NCCL_MESH_CPUS", "1,x", "a list of CPUs"},
        BadValue{"NCCL_MESH_CPUS", "3-1", "a list of CPUs"},
        BadValue{"NCCL_MESH_STATS", "f:0", "FILE[:SECONDS], seconds 1..3600"},
        BadValue{"NCCL_MESH_STALL_SECONDS", "86401", "0..86400"},
        BadValue{"NCCL_MESH_LOG", "loud", "none, warn, info, detail or trace"}));

TEST(Config, EveryBadValueIsNamed) {
  const LogCapture log;
  EXPECT_FALSE(
      load_settings({{"NCCL_MESH_QPS", "0"}, {"NCCL_IB_SL", "16"}, {"NCCL_MESH_LOG", "x"}}).ok());
  EXPECT_TRUE(log.warned("NCCL_MESH_QPS"));
  EXPECT_TRUE(log.warned("NCCL_IB_SL"));  // a warning, and no reason to stop
  EXPECT_TRUE(log.warned("NCCL_MESH_LOG"));
}

TEST(Config, EmptyMeansUnset) {
  EXPECT_EQ(
      loaded({{"NCCL_MESH_QPS", ""}, {"NCCL_IB_QPS_PER_CONNECTION", "2"}, {"NCCL_MESH_FABRIC", ""}})
          .qps,
      2);
}

TEST(Config, OwnNameGoesBeforeNcclsQpsPerConnection) {
  EXPECT_EQ(loaded({{"NCCL_MESH_QPS", "8"}, {"NCCL_IB_QPS_PER_CONNECTION", "2"}}).qps, 8);
  EXPECT_EQ(loaded({{"NCCL_IB_QPS_PER_CONNECTION", "2"}}).qps, 2);
}

TEST(Config, ANameThatIsFarFromAllIsNotSaidToBeNearOne) {
  for (const char* const name : {"NCCL_MESH_FOO", "NCCL_MESH_FREQUENCY"}) {
    const LogCapture log;
    loaded({{name, "1"}});
    EXPECT_TRUE(log.warned("the nearest is", 0));
    EXPECT_TRUE(log.warned(std::string(name) + " is not a setting and has no effect"));
  }
}

TEST(Config, BytesHaveUnitsInAllSettingsOfBytes) {
  EXPECT_EQ(loaded({{"NCCL_MESH_RELAY_BYTES", "512M"}}).relay_bytes, 512 << 20);
}

TEST(Config, UnknownNameWarnsOnceWithTheNearestAndDoesNoHarm) {
  const LogCapture log;
  EXPECT_EQ(loaded({{"NCCL_MESH_QPZ", "9"}, {"NCCL_OTHER", "1"}, {"NCCL_MESHED", "1"}}).qps, kAuto);
  ASSERT_EQ(log.all().size(), 1u) << log.joined();
  EXPECT_NE(log.all()[0].text.find("NCCL_MESH_QPZ"), std::string::npos);
  EXPECT_NE(log.all()[0].text.find("nearest is NCCL_MESH_QPS"), std::string::npos);
}

TEST(Config, AMisspeltNameOfNcclsNetworksGetsTheNearestOne) {
  const std::pair<const char*, const char*> misspelt[] = {
      {"NCCL_SOCKET_IFNAM", "NCCL_SOCKET_IFNAME"},
      {"NCCL_SOCKET_IFNMAE", "NCCL_SOCKET_IFNAME"},
      {"NCCL_IB_GID_INDX", "NCCL_IB_GID_INDEX"},
      {"NCCL_IB_HCAS", "NCCL_IB_HCA"},
      {"NCCL_NET_PLUGINS", "NCCL_NET_PLUGIN"}};
  for (const auto& [name, nearest] : misspelt) {
    const LogCapture log;
    loaded({{name, "1"}});
    EXPECT_TRUE(log.warned(std::string(name) +
                           " is not a setting that NCCL is known to have; the nearest is " +
                           nearest));
  }
}

// A newer NCCL may have it, and other plugins have settings of their own.
TEST(Config, ANameOfNcclsThatIsFarFromAllGetsNoLine) {
  const LogCapture log;
  loaded({{"NCCL_IB_SPRAY_PACKETS", "1"},
          {"NCCL_NET_FOO", "1"},
          {"NCCL_SOCKET_NTHREADS", "4"},
          {"NCCL_IB_RAIL_POLICY", "1"},
          {"NCCL_NTHREADS", "64"}});
  EXPECT_TRUE(log.warned("", 0));
}

TEST(Config, BytesInFlightMayBeLeftToThePortsSpeed) {
  EXPECT_EQ(loaded({}).inflight_bytes, kAuto);
  EXPECT_EQ(loaded({{"NCCL_MESH_INFLIGHT_BYTES", "auto"}}).inflight_bytes, kAuto);
  EXPECT_EQ(loaded({{"NCCL_MESH_INFLIGHT_BYTES", "8M"}}).inflight_bytes, 8 << 20);
}

TEST(Config, FewerBytesInFlightThanOneWorkRequestIsRefused) {
  const LogCapture log;
  EXPECT_EQ(load_settings({{"NCCL_MESH_INFLIGHT_BYTES", "256K"}}).code(), Errc::InvalidArgument);
  EXPECT_TRUE(log.warned("NCCL_MESH_WR_BYTES"));
  EXPECT_TRUE(
      load_settings({{"NCCL_MESH_INFLIGHT_BYTES", "256K"}, {"NCCL_MESH_WR_BYTES", "256K"}}).ok());
}

TEST(Config, SettingsKnowWhichOfThemWereGiven) {
  EXPECT_TRUE(loaded({}).given.empty());
  const Settings settings = loaded(
      {{"NCCL_IB_QPS_PER_CONNECTION", "2"}, {"NCCL_MESH_INLINE", "auto"}, {"NCCL_MESH_SLOTS", ""}});
  EXPECT_EQ(settings.given, (std::vector<std::string>{"NCCL_MESH_QPS", "NCCL_MESH_INLINE"}));
}

TEST(Config, AProfileOfTheOldFormIsOneLineThatSaysHowToMakeTheNewOne) {
  const testkit::Folder folder;
  const std::string& home = folder.root();
  const std::string file = folder.write(".config/nccl-mesh/profile.json", "{}");
  const std::string now = " has no effect any more; `mesh_tune -o FILE` measures and writes lines";
  for (const auto& [environment, said] : std::vector<std::pair<Environment, std::string>>{
           {{{"HOME", home}}, file + now},
           {{{"HOME", "/x"}, {"XDG_CONFIG_HOME", home + "/.config"}}, file + now},
           {{{"HOME", home}, {"XDG_CONFIG_HOME", "relative"}}, file + now},
           {{{"HOME", home}, {"XDG_CONFIG_HOME", "/x"}}, ""},
           {{{"HOME", home}, {"NCCL_MESH_PROFILE", "a.json"}}, "NCCL_MESH_PROFILE" + now}}) {
    const LogCapture log;
    EXPECT_TRUE(load_settings(environment).ok());
    EXPECT_EQ(log.all().size(), said.empty() ? 0u : 1u) << log.joined();
    EXPECT_TRUE(log.warned(said, said.empty() ? 0 : 1));
  }
}

// Nobody may log here: NCCL asks before it has given its logger.
TEST(Config, OneShotIsAskedForByAValueAboveZero) {
  const LogCapture log;
  const auto asked = [](const char* value) {
    return one_shot_asked({{"NCCL_MESH_ONESHOT_BYTES", value}});
  };
  EXPECT_FALSE(one_shot_asked({}));
  for (const char* nothing : {"", "0", "00", "0K", "0x0", "0x00"}) EXPECT_FALSE(asked(nothing));
  for (const char* something : {"1", "64K", "0x1", "10", "0xa", "1G"})
    EXPECT_TRUE(asked(something));
  EXPECT_TRUE(log.warned("", 0));
}

TEST(Config, ProcessEnvironmentIsRead) {
  ASSERT_EQ(::setenv("NCCL_MESH_QPS", "5", 1), 0);
  const Result<Settings> settings = load_settings();
  ::unsetenv("NCCL_MESH_QPS");
  ASSERT_TRUE(settings.ok());
  EXPECT_EQ(settings->qps, 5);
}

// The texts about the settings: in the log, for a person, and on the plugin's page.

TEST(ConfigText, DescriptionSaysWhatDiffersAndFromWhere) {
  const Environment environment{{"NCCL_IB_QPS_PER_CONNECTION", "2"}};
  Settings settings = loaded(environment);
  settings.slots = 128;
  const std::string text = describe_settings(settings, environment);
  EXPECT_NE(text.find("NCCL_MESH_QPS 2 queue pairs (default auto, from NCCL_IB_QPS_PER_CONNECTION "
                      "in the environment)"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("NCCL_MESH_SLOTS 128 requests (default 32, set by the program)"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("NCCL_MESH_WR_BYTES 512K bytes\n"), std::string::npos) << text;
}

TEST(ConfigText, LogTracesEverySettingAndNamesNoDefault) {
  const LogCapture log;
  log_settings(Settings{}, {});
  EXPECT_TRUE(
      log.said(LogLevel::Trace, "setting NCCL_", static_cast<int>(settings_table().size())));
  EXPECT_TRUE(log.said(LogLevel::Info, "", 0));
}

TEST(ConfigText, ASecretIsNeverPrinted) {
  const Environment environment{{"NCCL_MESH_JOB", "swordfish"}};
  const Settings settings = loaded(environment);
  EXPECT_EQ(settings.job, "swordfish");
  const LogCapture log;
  log_settings(settings, environment);
  std::string text = describe_settings(settings, environment) + log.joined();
  for (const auto& [name, value] : setting_values(settings)) text += value;
  EXPECT_EQ(text.find("swordfish"), std::string::npos) << text;
  EXPECT_TRUE(log.said(LogLevel::Info, "settings: NCCL_MESH_JOB a secret (default unset)"));
  EXPECT_FALSE(load_settings({{"NCCL_MESH_JOB", "swordfish" + std::string(1024, 'x')}}).ok());
  EXPECT_EQ(log.joined().find("swordfish"), std::string::npos) << log.joined();
  EXPECT_TRUE(log.warned("NCCL_MESH_JOB: its value is not usable"));
}

TEST(ConfigText, LogNamesWhatDiffers) {
  const Environment environment{{"NCCL_IB_QPS_PER_CONNECTION", "2"}};
  Settings settings = loaded(environment);
  settings.slots = 128;
  const LogCapture log;
  log_settings(settings, environment);
  EXPECT_TRUE(log.said(LogLevel::Info, ""));
  EXPECT_TRUE(
      log.said(LogLevel::Info,
               "settings: NCCL_MESH_QPS 2 (default auto), NCCL_MESH_SLOTS 128 (default 32)"));
  EXPECT_NE(log.joined().find("NCCL_MESH_QPS 2 queue pairs (default auto, from "
                              "NCCL_IB_QPS_PER_CONNECTION in the environment)"),
            std::string::npos)
      << "the trace says who has set it\n"
      << log.joined();
}

// NCCL's log has its own variables, and a job's log is of the job's host.
TEST(ConfigText, LogLeavesOutWhereTheProcessRuns) {
  const Environment environment{{"NCCL_NET", "Mesh"},
                                {"NCCL_SOCKET_IFNAME", "lo"},
                                {"NCCL_HOSTID", "x"},
                                {"NCCL_MESH_FABRIC", "soft:pair.json"},
                                {"NCCL_MESH_HOST", "a"}};
  const LogCapture log;
  log_settings(loaded(environment), environment);
  EXPECT_TRUE(log.said(LogLevel::Info, "", 0));
}

TEST(ConfigText, ALongListOfSettingsTakesSeveralLines) {
  const Environment environment{{"NCCL_MESH_SLOTS", "128"},      {"NCCL_MESH_SQ_DEPTH", "64"},
                                {"NCCL_MESH_RQ_DEPTH", "64"},    {"NCCL_MESH_STRIPE_BYTES", "32K"},
                                {"NCCL_MESH_PATH_TIMEOUT", "7"}, {"NCCL_IB_GID_INDEX", "3"}};
  const LogCapture log;
  log_settings(loaded(environment), environment);
  EXPECT_TRUE(log.said(LogLevel::Info, "settings: NCCL_", 2));
  std::istringstream lines(log.joined());
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 160u) << line;
}

}  // namespace
}  // namespace mesh

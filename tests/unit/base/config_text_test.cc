// The texts about the settings: in the log, for a person, and on the plugin's page.
#include "src/base/config.h"

#include "src/base/settings_table.h"
#include "tests/unit/base/loaded_settings.h"
#include "tests/unit/base/log_capture.h"

#include <gtest/gtest.h>

#include <string>

namespace mesh {
namespace {

using testkit::loaded, testkit::LogCapture;

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

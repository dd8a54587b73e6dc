// The texts about the settings: in the log, for a person, and on the plugin's page.
#include "src/base/config.h"

#include "tests/unit/base/loaded_settings.h"
#include "tests/unit/base/log_capture.h"

#include <gtest/gtest.h>

#include <string>

namespace mesh {
namespace {

using testkit::loaded;
using testkit::LogCapture;

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

int rows_of(const std::string& table) {
  int rows = 0;
  for (std::size_t at = 0; (at = table.find("\n| `", at)) != std::string::npos; ++at) ++rows;
  return rows;
}

TEST(ConfigText, LogHasOneLineOfWhatDiffersAndTracesTheRest) {
  const LogCapture log;
  log_settings(Settings{}, {});
  EXPECT_EQ(log.count(LogLevel::Trace, "setting NCCL_"), rows_of(settings_markdown()))
      << log.joined();
  EXPECT_EQ(log.count(LogLevel::Info, ""), 1) << log.joined();
  EXPECT_EQ(log.count(LogLevel::Info, "settings: all at their defaults"), 1) << log.joined();
}

TEST(ConfigText, LogNamesWhatDiffersAndWhoSetIt) {
  const Environment environment{{"NCCL_IB_QPS_PER_CONNECTION", "2"}};
  Settings settings = loaded(environment);
  settings.slots = 128;
  const LogCapture log;
  log_settings(settings, environment);
  EXPECT_EQ(log.count(LogLevel::Info, ""), 1) << log.joined();
  EXPECT_EQ(log.count(LogLevel::Info,
                      "settings: NCCL_MESH_QPS 2 queue pairs (default auto, from "
                      "NCCL_IB_QPS_PER_CONNECTION in the environment), NCCL_MESH_SLOTS 128 "
                      "requests (default 32, set by the program)"),
            1)
      << log.joined();
}

TEST(Config, LogNamesNoVariableTwice) {
  const Environment environment{{"NCCL_MESH_SLOTS", "128"}};
  const LogCapture log;
  log_settings(loaded(environment), environment);
  EXPECT_EQ(log.count(LogLevel::Info,
                      "settings: NCCL_MESH_SLOTS 128 requests (default 32, from the environment)"),
            1)
      << log.joined();
}

TEST(ConfigText, MarkdownNamesEverySettingWithItsRange) {
  const std::string text = settings_markdown();
  EXPECT_NE(text.find("| `NCCL_MESH_SLOTS` | 32 | 32..256, a power of two (requests) |"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("Unset: `NCCL_IB_QPS_PER_CONNECTION`."), std::string::npos) << text;
}

}  // namespace
}  // namespace mesh

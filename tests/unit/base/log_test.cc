#include "src/base/log.h"

#include "src/base/config.h"
#include "src/base/log_time.h"
#include "tests/prelude.h"

#include <ctime>

namespace mesh {
namespace {

const std::regex kTimed(R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z nccl-mesh WARN a line\n)");

std::string warned() {
  testing::internal::CaptureStderr();
  LOG_WARN("a {}", "line");
  return testing::internal::GetCapturedStderr();
}

TEST(Log, ALineOfOurOwnMayBeginWithItsTime) {
  EXPECT_EQ(warned(), "nccl-mesh WARN a line\n");
  set_log_times(true);
  const std::string timed = warned();
  set_log_times(false);
  EXPECT_TRUE(std::regex_match(timed, kTimed)) << timed;
  EXPECT_EQ(warned(), "nccl-mesh WARN a line\n");
}

TEST(Log, TheSettingHasTheLevelAndMayAskForTimes) {
  Settings settings;
  settings.log_level = "detail+time";
  EXPECT_TRUE(wants_log_times(settings));
  EXPECT_EQ(log_level_of(settings), LogLevel::Detail);
  settings.log_level = "warn";
  EXPECT_FALSE(wants_log_times(settings));
  EXPECT_EQ(log_level_of(settings), LogLevel::Warn);
}

TEST(Log, TheTimeIsNowInUtc) {
  using Clock = std::chrono::system_clock;  // std::time() may be a tick behind
  const std::time_t before = Clock::to_time_t(Clock::now());
  const std::string text = log_time();
  const std::time_t after = Clock::to_time_t(Clock::now());
  std::tm parts{};
  ASSERT_NE(::strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &parts), nullptr) << text;
  const std::time_t said = ::timegm(&parts);
  EXPECT_LE(before, said);
  EXPECT_LE(said, after);
}

}  // namespace
}  // namespace mesh

#include "plugin/result.h"

#include "plugin/logger.h"
#include "src/base/log.h"
#include "tests/unit/plugin/plugin_test.h"

namespace mesh::plugin {
namespace {

struct Case {
  Errc code;
  ncclResult_t newer;
  ncclResult_t v5;
};

constexpr Case kCases[] = {
    {Errc::Ok, ncclSuccess, ncclSuccess},
    {Errc::WouldBlock, ncclSuccess, ncclSuccess},
    {Errc::InvalidArgument, ncclInvalidArgument, ncclInvalidArgument},
    {Errc::NotFound, ncclSystemError, ncclSystemError},
    {Errc::Unreachable, ncclRemoteError, ncclSystemError},
    {Errc::Protocol, ncclRemoteError, ncclSystemError},
    {Errc::PeerClosed, ncclRemoteError, ncclSystemError},
    {Errc::PeerGone, ncclRemoteError, ncclSystemError},
    {Errc::Truncated, ncclRemoteError, ncclSystemError},
    {Errc::Revoked, ncclInvalidUsage, ncclInvalidUsage},
    {Errc::Transport, ncclRemoteError, ncclSystemError},
    {Errc::Timeout, ncclRemoteError, ncclSystemError},
    {Errc::Exhausted, ncclInternalError, ncclInternalError},
    {Errc::System, ncclSystemError, ncclSystemError},
    {Errc::Internal, ncclInternalError, ncclInternalError},
};

TEST(ToResult, EveryCodeHasItsAnswer) {
  ASSERT_EQ(std::size(kCases), static_cast<std::size_t>(Errc::Internal) + 1);
  for (const Case& each : kCases) {
    EXPECT_EQ(to_result(each.code), each.newer) << errc_name(each.code);
    EXPECT_EQ(without_remote_error(to_result(each.code)), each.v5) << errc_name(each.code);
    EXPECT_LE(without_remote_error(to_result(each.code)), ncclInvalidUsage) << errc_name(each.code);
  }
}

// NCCL drops a line if none of its subsystems is wanted. By default INIT is wanted, and NET is not.
TEST(Logger, WarningsPassEveryFilterAndStartUpLinesTheDefaultOne) {
  LogCatcher::clear();
  use_logger(LogCatcher::log);
  LOG_WARN("w");
  LOG_INFO("i");
  LOG_DETAIL("d");
  LOG_TRACE("t");
  drop_logger();
  EXPECT_EQ(LogCatcher::subsystems_of("NET/Mesh : w"), NCCL_ALL);
  EXPECT_EQ(LogCatcher::subsystems_of("NET/Mesh : i"), NCCL_INIT | NCCL_NET);
  EXPECT_EQ(LogCatcher::subsystems_of("NET/Mesh : d"), NCCL_NET);
  EXPECT_EQ(LogCatcher::subsystems_of("NET/Mesh : t"), NCCL_NET);
}

TEST(Logger, LevelsAreNcclsAndTextIsNoFormat) {
  LogCatcher::clear();
  use_logger(LogCatcher::log);
  LOG_WARN("100 % of {}s", "%s");
  LOG_INFO("a");
  LOG_TRACE("b");
  use_logger(nullptr);  // a caller without a logger must not remove another one
  LOG_INFO("c");
  EXPECT_EQ(LogCatcher::lines(NCCL_LOG_WARN),
            (std::vector<LogCatcher::Line>{{NCCL_LOG_WARN, "NET/Mesh : 100 % of %ss"}}));
  EXPECT_EQ(LogCatcher::lines(NCCL_LOG_INFO).size(), 2u);
  EXPECT_EQ(LogCatcher::lines(NCCL_LOG_TRACE).size(), 1u);
  drop_logger();
  LOG_INFO("d");
  EXPECT_EQ(LogCatcher::lines(NCCL_LOG_INFO).size(), 2u);
}

std::vector<std::string> lines_of(const std::string& text, LogLevel level = LogLevel::Info) {
  LogCatcher::clear();
  use_logger(LogCatcher::log);
  MESH_LOG(level, "{}", text);
  drop_logger();
  std::vector<std::string> lines;
  const bool warns = level == LogLevel::Warn;
  for (const LogCatcher::Line& line : LogCatcher::lines(warns ? NCCL_LOG_WARN : NCCL_LOG_INFO))
    lines.push_back(line.second.substr(std::string("NET/Mesh : ").size()));
  return lines;
}

// NCCL's last error is its last warning: in pieces, a program would read the tail of a sentence.
TEST(Logger, AWarningIsOneLineHoweverLong) {
  const std::string text = "peer b: " + std::string(100, 'x') + "; " + std::string(300, 'y');
  EXPECT_EQ(lines_of(text, LogLevel::Warn), std::vector<std::string>{text});
}

TEST(Logger, ALongLineGoesOnWithItsSubject) {
  const std::string full(kLogLineBytesMax, 'x'), clause(100, 'x'), word(200, 'x');
  using Lines = std::vector<std::string>;
  EXPECT_EQ(lines_of(full), Lines{full}) << "160 bytes with the prefix";
  EXPECT_EQ(lines_of("peer b: " + clause + "; two, three and " + clause),
            (Lines{"peer b: " + clause + ";", "peer b: two, three and " + clause}));
  EXPECT_EQ(lines_of("peer b: " + clause + ", two and " + clause),
            (Lines{"peer b: " + clause + ",", "peer b: two and " + clause}));
  EXPECT_EQ(lines_of("one; " + clause + " three " + clause),
            (Lines{"one; " + clause + " three", clause}))
      << "it has no subject, and a line with \"one;\" alone would waste space";
  EXPECT_EQ(lines_of("peer b: " + word + " end"),
            (Lines{"peer b:", "peer b: " + word, "peer b: end"}));
  EXPECT_EQ(lines_of(word), Lines{word});
  EXPECT_EQ(lines_of(""), Lines{""});
}

}  // namespace
}  // namespace mesh::plugin

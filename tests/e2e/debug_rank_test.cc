// A rank waits for a debugger, and this test is the debugger; the run ends well afterwards.
#include "perf/driver/launcher.h"
#include "tests/e2e/pace.h"

#include <gtest/gtest.h>

#include <sys/ptrace.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

namespace mesh::e2e {
namespace {

constexpr driver::milliseconds kLook{50};

// Returns what stands behind the words in the output; empty if they do not come in time, or the
// process has ended before.
std::string await(driver::Launcher& launcher, const std::string& words) {
  const auto deadline = std::chrono::steady_clock::now() + scaled(std::chrono::seconds(60));
  while (std::chrono::steady_clock::now() < deadline) {
    const std::string said = launcher.output(0);
    const std::size_t at = said.find(words);
    const std::size_t end = at == std::string::npos ? at : said.find('\n', at);
    if (end != std::string::npos)
      return said.substr(at + words.size(), end - at - words.size() + 1);
    if (!launcher.running(0)) break;
    launcher.wait({.timeout = kLook});
  }
  return {};
}

// The rank may end by itself before it is let go. Its end is then collected here, as a debugger
// would do it, because the launcher sees the end of a traced process only after its tracer has.
void let_go(pid_t pid) {
  const bool interrupted = ::ptrace(PTRACE_INTERRUPT, pid, nullptr, nullptr) == 0;
  ASSERT_TRUE(interrupted || errno == ESRCH) << std::strerror(errno);
  int status = 0;
  ASSERT_EQ(::waitpid(pid, &status, __WALL), pid) << std::strerror(errno);
  if (!WIFSTOPPED(status)) return;
  if (::ptrace(PTRACE_DETACH, pid, nullptr, nullptr) == 0) return;
  ASSERT_EQ(errno, ESRCH) << std::strerror(errno);  // something killed it between the two calls
  ASSERT_EQ(::waitpid(pid, &status, __WALL), pid) << std::strerror(errno);
}

TEST(DebugRank, WaitsForADebuggerAndGoesOn) {
  driver::Launcher launcher;
  driver::ProcessSpec spec;
  spec.arguments = {MESH_LIFECYCLE_FILE, "--debug-rank", "1",
                    "--gtest_filter=" MESH_LIFECYCLE_TEST};
  spec.capture = true;
  ASSERT_TRUE(launcher.start(spec).ok());
  const std::string pid_text = await(launcher, "rank 1 waits for a debugger: gdb -p ");
  ASSERT_FALSE(pid_text.empty()) << launcher.output(0);
  const pid_t pid = std::atoi(pid_text.c_str());

  if (::ptrace(PTRACE_SEIZE, pid, nullptr, nullptr) != 0)
    GTEST_SKIP() << "no process may be traced here: " << std::strerror(errno);
  EXPECT_FALSE(await(launcher, "rank 1 goes on").empty()) << launcher.output(0);
  let_go(pid);

  EXPECT_EQ(launcher.wait({.timeout = scaled(std::chrono::seconds(100))}),
            driver::WaitEnd::AllEnded);
  EXPECT_TRUE(launcher.end(0).success()) << launcher.output(0);
}

TEST(DebugRank, RefusesWhatIsNoRank) {
  for (const char* const number : {"-1", "64", "x", ""}) {
    driver::Launcher launcher;
    driver::ProcessSpec spec;
    spec.arguments = {MESH_LIFECYCLE_FILE, "--debug-rank", number};
    spec.capture = true;
    ASSERT_TRUE(launcher.start(spec).ok());
    EXPECT_EQ(launcher.wait({.timeout = scaled(std::chrono::seconds(60))}),
              driver::WaitEnd::AllEnded);
    EXPECT_FALSE(launcher.end(0).success()) << number;
    EXPECT_NE(launcher.output(0).find("wanted: a rank of 0..63"), std::string::npos)
        << launcher.output(0);
  }
}

}  // namespace
}  // namespace mesh::e2e

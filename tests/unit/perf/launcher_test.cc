#include "perf/driver/launcher.h"
#include "perf/driver/soft_fabric.h"
#include "tests/prelude.h"
#include "tests/unit/engine/patience.h"
#include "tests/unit/perf/patience.h"

namespace mesh::driver {
namespace {

ProcessSpec shell(const std::string& script) {
  return {.arguments = {"/bin/sh", "-c", script}, .capture = true};
}

TEST(Launcher, KeepsOutputEnvironmentAndExitStatus) {
  Launcher launcher;
  ProcessSpec spec = shell("echo $MESH_TEST_WORD; echo err >&2; exit 3");
  spec.environment.emplace_back("MESH_TEST_WORD", "hello");
  ASSERT_TRUE(launcher.start(spec).ok());
  EXPECT_EQ(launcher.wait({.timeout = kPatience}), WaitEnd::AllEnded);
  EXPECT_EQ(launcher.output(0), "hello\nerr\n");
  EXPECT_EQ(launcher.end(0).text(), "exit status 3");
}

TEST(Launcher, OneFailureEndsTheWait) {
  Launcher launcher;
  ASSERT_TRUE(launcher.start(shell("sleep 1000")).ok());
  ASSERT_TRUE(launcher.start(shell("kill -9 $$")).ok());
  EXPECT_EQ(launcher.wait({.timeout = kPatience, .stop_at_failure = true}), WaitEnd::OneFailed);
  EXPECT_TRUE(launcher.running(0));
  EXPECT_EQ(launcher.end(1).code, SIGKILL);
}

// Expects that the process is gone, or is a zombie that init has yet to reap.
void expect_dead(pid_t process) {
  const std::string state = "/proc/" + std::to_string(process) + "/stat";
  const auto is_dead = [&state] {
    std::string text;
    std::getline(std::ifstream(state), text);
    return text.empty() || text.find(") Z") != std::string::npos;
  };
  EXPECT_TRUE(testkit::wait_until(is_dead)) << state;
}

TEST(Launcher, TakesGrandchildrenDownWithIt) {
  pid_t grandchild = 0;
  {
    Launcher launcher;
    ASSERT_TRUE(launcher.start(shell("sleep 1000 & echo $!")).ok());
    ASSERT_EQ(launcher.wait({.timeout = kPatience}), WaitEnd::AllEnded);
    grandchild = std::stoi(launcher.output(0));
    ASSERT_EQ(::kill(grandchild, 0), 0);
  }
  expect_dead(grandchild);
}

TEST(Launcher, TimesOut) {
  Launcher launcher;
  ASSERT_TRUE(launcher.start(shell("sleep 1000")).ok());
  EXPECT_EQ(launcher.wait({.timeout = std::chrono::milliseconds(50)}), WaitEnd::TimedOut);
}

const std::string kFabrics = MESH_FABRIC_DIR;

TEST(SoftFabric, RanksOfAHostFollowOneAnother) {
  const Result<SoftFabric> fabric = SoftFabric::open(kFabrics + "/pair.json", {"b", "a"}, 2);
  ASSERT_TRUE(fabric.ok());
  EXPECT_EQ(fabric->hosts(), (std::vector<std::string>{"b", "b", "a", "a"}));
  const auto third = fabric->environment(3);
  for (const std::pair<std::string, std::string>& wanted :
       {std::pair<std::string, std::string>("NCCL_MESH_HOST", "a"),
        {"LOCAL_RANK", "1"},
        {"LOCAL_WORLD_SIZE", "2"}})
    EXPECT_EQ(std::count(third.begin(), third.end(), wanted), 1) << wanted.first;
}

TEST(SoftFabric, RefusesAHostThatIsNotThereAndANullFabric) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(SoftFabric::open(kFabrics + "/pair.json", {"c"}).code(), Errc::NotFound);
  // Figures on it would look like figures of the software fabric.
  EXPECT_EQ(SoftFabric::open(kFabrics + "/null.json", {}).code(), Errc::InvalidArgument);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("host 'c' is not one of the fabric file's: a, b"), std::string::npos);
  EXPECT_NE(said.find("moves no data"), std::string::npos);
}

}  // namespace
}  // namespace mesh::driver

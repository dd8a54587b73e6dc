#include "perf/driver/launcher.h"

#include <gtest/gtest.h>

#include <signal.h>

namespace mesh::driver {
namespace {

constexpr std::chrono::milliseconds kPatience{60000};

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

TEST(Launcher, TakesGrandchildrenDownWithIt) {
  pid_t grandchild = 0;
  {
    Launcher launcher;
    ASSERT_TRUE(launcher.start(shell("sleep 1000 & echo $!")).ok());
    ASSERT_EQ(launcher.wait({.timeout = kPatience}), WaitEnd::AllEnded);
    grandchild = std::stoi(launcher.output(0));
    ASSERT_EQ(::kill(grandchild, 0), 0);
  }
  // Killed and waiting for init to reap it, or gone.
  const std::string state = "/proc/" + std::to_string(grandchild) + "/stat";
  Launcher reader;
  ASSERT_TRUE(reader
                  .start(shell("for i in $(seq 300); do grep -q ') Z' " + state + " || [ ! -e " +
                               state + " ] && exit 0; sleep 0.1; done; exit 1"))
                  .ok());
  ASSERT_EQ(reader.wait({.timeout = kPatience}), WaitEnd::AllEnded);
  EXPECT_TRUE(reader.end(0).success());
}

TEST(Launcher, TimesOut) {
  Launcher launcher;
  ASSERT_TRUE(launcher.start(shell("sleep 1000")).ok());
  EXPECT_EQ(launcher.wait({.timeout = std::chrono::milliseconds(50)}), WaitEnd::TimedOut);
}

}  // namespace
}  // namespace mesh::driver

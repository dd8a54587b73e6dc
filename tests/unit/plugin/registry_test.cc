#include "plugin/registry.h"

#include "plugin/calls.h"
#include "src/base/log.h"
#include "tests/unit/plugin/plugin_test.h"

#include <barrier>

namespace mesh::plugin {
namespace {

std::atomic<int> g_heard{0};  // lines of the logger below
// NOLINTNEXTLINE(readability-function-size): NCCL's signature
void other_logger(ncclDebugLogLevel, unsigned long, const char*, int, const char*, ...) {
  g_heard.fetch_add(1);
}
void log_a_line() { log_line(LogLevel::Warn, "", 0, "a line"); }

class RegistryTest : public VersionsTest {};

TEST_F(RegistryTest, EngineLivesFromTheFirstInitToTheLastFinalize) {
  const int opened = state().engines_opened;
  void* const first = init(net(12));
  void* const second = init(net(11));
  EXPECT_NE(first, second);
  EXPECT_EQ(state().engines_opened, opened + 1);
  EXPECT_EQ(net(12).finalize(first), ncclSuccess);
  EXPECT_EQ(state().engines_alive, 1);
  EXPECT_EQ(net(11).finalize(second), ncclSuccess);
  EXPECT_TRUE(all_engines_end());
  EXPECT_EQ(state().contexts_alive, 0);
}

TEST_F(RegistryTest, InitAfterTheLastFinalizeOpensAnother) {
  const int opened = state().engines_opened;
  for (int cycle = 0; cycle < 3; ++cycle) EXPECT_EQ(net(12).finalize(init(net(12))), ncclSuccess);
  EXPECT_EQ(state().engines_opened, opened + 3);
  EXPECT_TRUE(all_engines_end());
}

TEST_F(RegistryTest, FinalizeWithoutInitIsHarmless) {
  Context stray;
  EXPECT_EQ(net(12).finalize(&stray), ncclSuccess);
  void* const context = init(net(12));
  EXPECT_EQ(net(12).finalize(context), ncclSuccess);
}

TEST_F(RegistryTest, OldVersionsKeepTheEngineBeyondAFinalize) {
  init(net(6));
  void* const context = init(net(12));
  EXPECT_EQ(net(12).finalize(context), ncclSuccess);
  EXPECT_EQ(state().engines_alive, 1);
  init(net(9));
  int count = 0;
  EXPECT_EQ(net(9).devices(&count), ncclSuccess);
  EXPECT_EQ(count, 2);
}

TEST_F(RegistryTest, NoUsableRailFailsQuietly) {
  for (const AnyNet& each : nets_) {
    state().open_answer = Errc::NotFound;
    void* context = &context;
    EXPECT_EQ(each.init(LogCatcher::log, -1, &context), ncclSystemError);
    EXPECT_EQ(context, nullptr);
  }
  EXPECT_TRUE(LogCatcher::lines(NCCL_LOG_WARN).empty());
  EXPECT_TRUE(all_engines_end());
}

TEST_F(RegistryTest, FailedContextLeavesNoEngine) {
  state().context_answer = Errc::Exhausted;
  void* context = nullptr;
  EXPECT_EQ(net(12).init(LogCatcher::log, -1, &context), ncclInternalError);
  EXPECT_EQ(context, nullptr);
  EXPECT_TRUE(all_engines_end());
}

TEST_F(RegistryTest, ContextWithoutMemoryLeavesNoEngine) {
  state().context_throws = true;
  void* context = nullptr;
  EXPECT_EQ(net(12).init(LogCatcher::log, -1, &context), ncclSystemError);
  EXPECT_EQ(context, nullptr);
  EXPECT_TRUE(all_engines_end());
  EXPECT_EQ(LogCatcher::lines(NCCL_LOG_WARN).size(), 1u);
}

TEST_F(RegistryTest, MetricsThatCannotBeginAreOneWarningAndNoFailedInit) {
  ASSERT_EQ(::setenv("NCCL_MESH_STATS", (testing::TempDir() + "mesh-%h.prom").c_str(), 1), 0);
  state().host_name_throws = true;
  void* const context = init(net(12));
  ASSERT_EQ(::unsetenv("NCCL_MESH_STATS"), 0);
  EXPECT_EQ(LogCatcher::lines(NCCL_LOG_WARN).size(), 1u);
  EXPECT_EQ(net(12).finalize(context), ncclSuccess);
  EXPECT_TRUE(all_engines_end());
}

TEST_F(RegistryTest, ClosesAfterFinalizeAreForgivenWhetherOrNotAnotherCommunicatorLives) {
  for (const bool another : {true, false}) {
    void* const other = another ? init(net(12)) : nullptr;
    void* const context = init(net(12));
    const Connected made = connect_to_self(net(12), context);
    EXPECT_EQ(net(12).finalize(context), ncclSuccess);
    state().calls.clear();
    close_all(net(12), made);
    EXPECT_EQ(net(12).finalize(context), ncclSuccess) << "a second finalize too";
    EXPECT_EQ(state().calls, std::vector<std::string>()) << "nothing of it is touched";
    EXPECT_EQ(net(12).finalize(other), ncclSuccess);
  }
}

TEST_F(RegistryTest, ContextThatTakesLongToCloseHoldsUpNoOtherThread) {
  using namespace std::chrono_literals;
  init(net(7));
  std::promise<void> inside, opened;
  state().device = [&, gate = opened.get_future().share()](const std::string& call) {
    if (call != "context closes") return;
    inside.set_value();
    gate.wait();
  };
  std::thread ending([&] { close_all(net(7), connect_to_self(net(7), nullptr)); });
  ASSERT_EQ(inside.get_future().wait_for(30s), std::future_status::ready);
  {
    const std::lock_guard lock(state().mutex);
    state().device = nullptr;
  }
  std::promise<void> done;
  std::thread other([&] {
    close_all(net(7), connect_to_self(net(7), nullptr));
    EXPECT_EQ(net(12).finalize(init(net(12))), ncclSuccess);
    done.set_value();
  });
  EXPECT_EQ(done.get_future().wait_for(10s), std::future_status::ready)
      << "waits for the context of another thread";
  opened.set_value();
  ending.join();
  other.join();
  EXPECT_EQ(state().contexts_alive, 0);
}

// The last finalize silences NCCL's logger also if the engine stays, because it carries for others.
TEST_F(RegistryTest, ACommunicatorThatBeginsDuringTheLastFinalizeHasItsLogger) {
  using namespace std::chrono_literals;
  void* const first = init(net(12));
  void* second = nullptr;
  std::thread begins;
  state().carries = [&] {
    begins = std::thread([&] { EXPECT_EQ(net(12).init(other_logger, -1, &second), ncclSuccess); });
    // Gives the other thread time to come as far as it can.
    const auto until = std::chrono::steady_clock::now() + 300ms;
    for (g_heard = 0; g_heard == 0 && std::chrono::steady_clock::now() < until; log_a_line())
      std::this_thread::yield();
    return true;
  };
  EXPECT_EQ(net(12).finalize(first), ncclSuccess);
  begins.join();
  state().carries = nullptr;
  g_heard = 0;
  log_a_line();
  EXPECT_EQ(g_heard, 1);
  EXPECT_EQ(net(12).finalize(second), ncclSuccess);
}

TEST_F(RegistryTest, BadSettingFailsInitWithAWarning) {
  ASSERT_EQ(::setenv("NCCL_MESH_QPS", "99", 1), 0);
  void* context = nullptr;
  EXPECT_EQ(net(12).init(LogCatcher::log, -1, &context), ncclInvalidArgument);
  ASSERT_EQ(::unsetenv("NCCL_MESH_QPS"), 0);
  EXPECT_EQ(LogCatcher::lines(NCCL_LOG_WARN).size(), 1u);
  EXPECT_TRUE(all_engines_end());
}

TEST_F(RegistryTest, SettingsAreSaidOnceInOneLineAndTraced) {
  const auto settings_lines = [] {
    const std::vector<LogCatcher::Line> lines = LogCatcher::lines(NCCL_LOG_INFO);
    return std::count_if(lines.begin(), lines.end(), [](const LogCatcher::Line& line) {
      return line.second.starts_with("NET/Mesh : settings: ");
    });
  };
  ASSERT_EQ(::setenv("NCCL_MESH_SLOTS", "64", 1), 0);
  void* const first = init(net(12));
  ASSERT_EQ(::unsetenv("NCCL_MESH_SLOTS"), 0);
  EXPECT_EQ(settings_lines(), 1);
  const std::size_t traced = LogCatcher::lines(NCCL_LOG_TRACE).size();
  EXPECT_GE(traced, 20u);
  void* const second = init(net(12));
  EXPECT_EQ(settings_lines(), 1);
  EXPECT_EQ(LogCatcher::lines(NCCL_LOG_TRACE).size(), traced);
  EXPECT_EQ(net(12).finalize(first), ncclSuccess);
  EXPECT_EQ(net(12).finalize(second), ncclSuccess);
}

TEST_F(RegistryTest, TheSettingGivesLinesOfOurOwnTheirTime) {
  const auto line_after_init = [this] {
    EXPECT_EQ(net(12).finalize(init(net(12))), ncclSuccess);
    set_log_sink(nullptr);  // as before NCCL gives a logger
    testing::internal::CaptureStderr();
    log_line(LogLevel::Warn, "", 0, "a line");
    return testing::internal::GetCapturedStderr();
  };
  ASSERT_EQ(::setenv("NCCL_MESH_LOG", "info+time", 1), 0);
  const std::string timed = line_after_init();
  ASSERT_EQ(::unsetenv("NCCL_MESH_LOG"), 0);
  EXPECT_TRUE(timed.ends_with("Z nccl-mesh WARN a line\n")) << timed;
  EXPECT_EQ(line_after_init(), "nccl-mesh WARN a line\n");
}

TEST_F(RegistryTest, CallsBeforeInitAreRefused) {
  for (const AnyNet& each : nets_) {
    int count = 77;
    EXPECT_EQ(each.devices(&count), ncclInvalidUsage);
    EXPECT_EQ(count, 0);
    std::array<std::byte, NCCL_NET_HANDLE_MAXSIZE> handle{};
    void* comm = &count;
    EXPECT_EQ(each.listen({nullptr, 0}, handle.data(), &comm), ncclInvalidArgument);
    EXPECT_EQ(comm, nullptr);
  }
}

TEST_F(RegistryTest, TrafficClassReachesTheContext) {
  for (const int wanted : {-1, 0, 104, 255, 256, -7})
    EXPECT_EQ(net(12).finalize(init(net(12), wanted)), ncclSuccess);
  EXPECT_EQ(state().traffic_classes, (std::vector<int>{kAuto, 0, 104, 255, kAuto, kAuto}));
  EXPECT_EQ(LogCatcher::lines(NCCL_LOG_WARN).size(), 2u);
}

TEST_F(RegistryTest, SeveralVersionsShareOneEngine) {
  std::vector<void*> contexts;
  std::vector<Connected> made;
  for (const AnyNet& each : nets_) {
    contexts.push_back(init(each));
    made.push_back(connect_to_self(each, contexts.back()));
  }
  EXPECT_EQ(state().engines_alive, 1);
  // v5..v10 share this thread's context, and each later version has its own.
  EXPECT_EQ(state().contexts_alive, nccl::kNewestVersion - 10 + 1);
  for (std::size_t i = 0; i < nets_.size(); ++i) {
    close_all(nets_[i], made[i]);
    EXPECT_EQ(nets_[i].finalize(contexts[i]), ncclSuccess);
  }
  EXPECT_EQ(state().contexts_alive, 1);
}

TEST_F(RegistryTest, EveryThreadHasItsContext) {
  init(net(8));
  std::vector<std::thread> threads;
  threads.reserve(3);
  std::barrier together(3);
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      const Connected first = connect_to_self(net(8), nullptr);
      together.arrive_and_wait();
      const Connected second = connect_to_self(net(6), nullptr);
      EXPECT_EQ(static_cast<Channel*>(first.send)->context,
                static_cast<Channel*>(second.send)->context);
      EXPECT_EQ(static_cast<Channel*>(first.recv)->context,
                static_cast<Channel*>(second.send)->context);
      close_all(net(8), first);
      close_all(net(6), second);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(state().context_threads.size(), 3u);
  EXPECT_EQ(state().contexts_alive, 0) << "an ended thread's idle context is closed";
}

TEST_F(RegistryTest, ContextOfAnEndedThreadGoesWithItsLastComm) {
  init(net(7));
  Connected made;
  std::thread([&] { made = connect_to_self(net(7), nullptr); }).join();
  EXPECT_EQ(state().contexts_alive, 1);
  EXPECT_EQ(net(7).close_listen(made.listen), ncclSuccess);
  EXPECT_EQ(net(7).close_send(made.send), ncclSuccess);
  EXPECT_EQ(state().contexts_alive, 1);
  state().calls.clear();
  EXPECT_EQ(net(7).close_recv(made.recv), ncclSuccess);
  EXPECT_EQ(state().calls, (std::vector<std::string>{"channel closed", "context closed"}));
}

TEST_F(RegistryTest, TrafficClassesOfVersionTenHaveContextsOfTheirOwn) {
  init(net(10));
  std::array<std::byte, NCCL_NET_HANDLE_MAXSIZE> handle{};
  std::vector<void*> comms;
  for (const int wanted : {-1, 8, 8, 16}) {
    ncclNetCommConfig_v10_t config{wanted};
    comms.push_back(nullptr);
    ASSERT_EQ(ncclNetPlugin_v10.connect(0, &config, handle.data(), &comms.back(), nullptr),
              ncclSuccess);
  }
  EXPECT_EQ(state().traffic_classes, (std::vector<int>{kAuto, 8, 16}));
  for (void* const comm : comms) EXPECT_EQ(net(10).close_send(comm), ncclSuccess);
}

TEST_F(RegistryTest, ExitWithACommOpenLeavesTheEngineToTheKernel) {
  init(net(6));
  const Connected made = connect_to_self(net(6), nullptr);
  Registry::instance().process_exits();
  EXPECT_EQ(state().engines_alive, 1);
  EXPECT_EQ(state().calls.back(), "process exits") << "it may carry for others";
  LogCatcher::clear();
  EXPECT_EQ(net(6).close_send(made.send), ncclSuccess);
  int count = 0;
  EXPECT_EQ(net(6).test(nullptr, &count, nullptr), ncclInvalidUsage);
  EXPECT_TRUE(LogCatcher::lines(NCCL_LOG_WARN).empty()) << "NCCL's logger may be gone";
  EXPECT_EQ(net(6).close_recv(made.recv), ncclSuccess);
  EXPECT_EQ(net(6).close_listen(made.listen), ncclSuccess);
}

// The last comm of an ended thread closes its context too, which may take a second.
TEST_F(RegistryTest, ExitWhileAContextClosesLeavesTheEngineToTheKernel) {
  init(net(7));
  Connected made;
  std::thread([&] { made = connect_to_self(net(7), nullptr); }).join();
  EXPECT_EQ(net(7).close_listen(made.listen), ncclSuccess);
  EXPECT_EQ(net(7).close_send(made.send), ncclSuccess);
  std::promise<void> inside, opened;
  state().device = [&, gate = opened.get_future().share()](const std::string& call) {
    if (call != "context closes") return;
    inside.set_value();
    gate.wait();
  };
  std::thread closing([&] { EXPECT_EQ(net(7).close_recv(made.recv), ncclSuccess); });
  ASSERT_EQ(inside.get_future().wait_for(std::chrono::seconds(30)), std::future_status::ready);
  Registry::instance().process_exits();
  EXPECT_EQ(state().engines_alive, 1) << "a thread is inside its close_context";
  opened.set_value();
  closing.join();
  EXPECT_EQ(state().contexts_alive, 0);
}

TEST_F(RegistryTest, ManyThreadsMayInitAndFinalizeAtOnce) {
  std::vector<std::thread> threads;
  threads.reserve(8);
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 50; ++round) {
        void* const context = init(net(12));
        const Connected made = connect_to_self(net(12), context);
        close_all(net(12), made);
        EXPECT_EQ(net(12).finalize(context), ncclSuccess);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(all_engines_end());
}

// Makes every call in a forked child: each must be refused, and must touch nothing of the parent's.
// Returns the number of wrong answers.
int wrong_answers_in_child(const AnyNet& net, const Connected& made, void* context) {
  int wrong = 0;
  const auto refused = [&](ncclResult_t result) { wrong += result == ncclSystemError ? 0 : 1; };
  std::array<std::byte, NCCL_NET_HANDLE_MAXSIZE> handle{};
  void* out = nullptr;
  int number = 0;
  char data[8];
  refused(net.init(LogCatcher::log, -1, &out));
  refused(net.devices(&number));
  refused(net.listen({context, 0}, handle.data(), &out));
  refused(net.connect({context, 0}, handle.data(), &out));
  refused(net.accept(made.listen, &out));
  refused(net.reg_mr({made.send, data, 8, NCCL_PTR_HOST}, &out));
  refused(net.isend({made.send, data, 8, 0, nullptr}, &out));
  refused(net.irecv({made.recv, data, 8, 0, nullptr}, &out));
  refused(net.iflush(made.recv, &out));
  refused(net.test(made.send, &number, nullptr));
  refused(net.close_send(made.send));
  refused(net.close_recv(made.recv));
  refused(net.close_listen(made.listen));
  if (context != nullptr) refused(net.finalize(context));
  return wrong + (fake::state().channels_alive == 2 ? 0 : 1);
}

TEST_F(RegistryTest, ForkedChildIsRefusedEverything) {
  for (const int version : {5, 10, 12}) {
    void* const context = init(net(version));
    const Connected made = connect_to_self(net(version), context);
    const pid_t child = ::fork();
    if (child == 0) ::_exit(wrong_answers_in_child(net(version), made, context));
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 0) << "version " << version;
    close_all(net(version), made);
    EXPECT_EQ(net(version).finalize(context), ncclSuccess);
  }
}

}  // namespace
}  // namespace mesh::plugin

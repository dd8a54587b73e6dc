// One call of one card, or of the file system that takes the metrics, does not return. Meanwhile
// communicators begin and end, snapshots are taken and the process exits.
#include "plugin/engine_ends.h"
#include "plugin/snapshot_call.h"
#include "src/base/log.h"
#include "tests/unit/plugin/plugin_test.h"

namespace mesh::plugin {
namespace {

using namespace std::chrono_literals;

class SickCardTest : public VersionsTest {
 protected:
  // The next call of this kind waits for heal().
  void hang_in(const char* kind) {
    const std::lock_guard lock(state().mutex);
    state().device = [this, kind](const std::string& call) {
      if (call != kind || hangs_.exchange(true)) return;
      inside_.set_value();
      healthy_.wait();
    };
  }
  // Does this on a thread, and returns when it hangs.
  void begin(const std::function<void()>& work) {
    threads_.emplace_back(work);
    ASSERT_EQ(inside_.get_future().wait_for(30s), std::future_status::ready);
  }
  void expect_end(const char* what, const std::function<void()>& work) {
    std::promise<void> done;
    std::future<void> end = done.get_future();
    threads_.emplace_back([work, done = std::move(done)]() mutable {
      work();
      done.set_value();
    });
    EXPECT_EQ(end.wait_for(10s), std::future_status::ready) << what << " waits for the card";
  }
  void expect_that_others_begin_and_end() {
    expect_end("a snapshot", [] { EXPECT_NE(nccl_mesh_snapshot(nullptr, 0), 0u); });
    expect_end("a communicator", [this] { use_and_finalize(init(net(12))); });
    expect_end("a communicator of version 6", [this] {
      init(net(6));
      close_all(net(6), connect_to_self(net(6), nullptr));
    });
  }
  void use_and_finalize(void* context) {
    close_all(net(12), connect_to_self(net(12), context));
    EXPECT_EQ(net(12).finalize(context), ncclSuccess);
  }
  static void expect_that_the_process_exits() { Registry::instance().process_exits(); }
  void TearDown() override {
    heal_.set_value();
    for (std::thread& thread : threads_) thread.join();
    VersionsTest::TearDown();
  }

 private:
  std::atomic<bool> hangs_{false};
  std::promise<void> inside_, heal_;
  std::shared_future<void> healthy_ = heal_.get_future().share();
  std::vector<std::thread> threads_;
};

TEST_F(SickCardTest, ThatHoldsUpAnInitHoldsUpNoOtherCommunicator) {
  void* const first = init(net(12));
  hang_in("context opens");
  begin([this] { use_and_finalize(init(net(11))); });
  expect_that_others_begin_and_end();
  expect_end("finalize", [this, first] { use_and_finalize(first); });
  expect_end("exit", expect_that_the_process_exits);
}

TEST_F(SickCardTest, ThatHoldsUpAThreadsContextHoldsUpNoOtherThread) {
  init(net(8));
  hang_in("context opens");
  begin([this] { close_all(net(8), connect_to_self(net(8), nullptr)); });
  expect_that_others_begin_and_end();
  expect_end("exit", expect_that_the_process_exits);
  EXPECT_EQ(state().engines_alive, 1) << "a thread opens a context of it";
}

TEST_F(SickCardTest, ThatHoldsUpAFinalizeHoldsUpNoOtherCommunicator) {
  void* const first = init(net(12));
  void* const second = init(net(12));
  hang_in("context closes");
  begin([this, second] { use_and_finalize(second); });
  expect_that_others_begin_and_end();
  expect_end("finalize", [this, first] { use_and_finalize(first); });
  expect_end("exit", expect_that_the_process_exits);
}

TEST_F(SickCardTest, ThatHoldsUpTheStartHoldsUpNeitherSnapshotNorExit) {
  hang_in("engine opens");
  begin([this] { use_and_finalize(init(net(12))); });
  expect_end("a snapshot", [] { EXPECT_NE(nccl_mesh_snapshot(nullptr, 0), 0u); });
  expect_end("exit", expect_that_the_process_exits);
}

TEST_F(SickCardTest, ThatHoldsUpTheEndOfAnEngineIsLeftToAThread) {
  void* const first = init(net(12));
  hang_in("engine closes");
  expect_end("the last finalize", [this, first] { use_and_finalize(first); });
  EXPECT_EQ(state().engines_alive, 1);
  log_line(LogLevel::Warn, "", 0, "a line of the thread");
  EXPECT_TRUE(LogCatcher::lines(NCCL_LOG_WARN).empty()) << "NCCL may be unloaded";
  expect_that_others_begin_and_end();
  EXPECT_EQ(state().engines_alive, 2) << "another engine does not wait for the card";
  expect_end("exit", expect_that_the_process_exits);
  EXPECT_EQ(state().engines_alive, 1) << "the healthy one has ended";
}

TEST_F(SickCardTest, ThatHoldsUpTheEndOfAnEngineDoesNotLogAfterAFailedStart) {
  void* const first = init(net(12));
  hang_in("engine closes");
  expect_end("the last finalize", [this, first] { use_and_finalize(first); });
  state().open_answer = Errc::NotFound;
  void* context = nullptr;
  EXPECT_EQ(net(12).init(LogCatcher::log, -1, &context), ncclSystemError);
  LogCatcher::clear();
  log_line(LogLevel::Warn, "", 0, "a line of the thread");
  EXPECT_TRUE(LogCatcher::lines(NCCL_LOG_WARN).empty()) << "NCCL may be unloaded";
}

// A file system that hangs is a device, too. The writer of the last page may log when it answers.
TEST_F(SickCardTest, APageOfMetricsThatHangsIsKeptInMind) {
  std::promise<void> inside, opened;
  EngineEnds ends;
  ends.reserve();
  const auto life = std::make_shared<EngineLife>();
  Result<std::unique_ptr<Engine>> opened_engine = Engine::open({});
  life->engine = std::move(*opened_engine);
  life->stats = StatsWriter::start({.files = {"page"},
                                    .texts = [](PageKind) { return std::vector<std::string>{"x"}; },
                                    .write =
                                        [&](const std::string&, std::string_view) {
                                          inside.set_value();
                                          opened.get_future().wait();
                                          return 0;
                                        }});
  ASSERT_EQ(inside.get_future().wait_for(30s), std::future_status::ready);
  ends.begin(life);
  ends.settle(*life);
  EXPECT_TRUE(ends.page_hangs()) << "no other writer begins";
  EXPECT_TRUE(ends.any()) << "NCCL's logger is not for this thread any more";
  ends.wait_for_peers();
  EXPECT_EQ(state().engines_alive, 0) << "the engine does not wait for the page";
  opened.set_value();
  while (ends.any()) std::this_thread::yield();
  EXPECT_FALSE(ends.page_hangs());
}

}  // namespace
}  // namespace mesh::plugin

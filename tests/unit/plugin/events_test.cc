// NCCL's profiler sees every request of a job that it watches: a start and then a stop, with the
// queue pairs and bytes that the engine reports. Without a profiler the tables do not change.
#include "plugin/calls.h"
#include "plugin/channel_events.h"
#include "tests/unit/plugin/plugin_test.h"
#include "tests/unit/plugin/profiler_recorder.h"

#include <stdlib.h>

namespace mesh::plugin {
namespace {

using testkit::ProfilerRecorder;
using Watched = ProfilerRecorder::Event;

// A comm to itself over the newest table, with or without a profiler.
class Events : public PluginTest {
 protected:
  void SetUp() override {
    PluginTest::SetUp();
    ProfilerRecorder::clear();
  }
  void TearDown() override {
    EXPECT_EQ(ProfilerRecorder::mistakes(), "");
    ::unsetenv("NCCL_PROFILER_PLUGIN");
    PluginTest::TearDown();
  }

  struct Job {
    void* context = nullptr;
    void *listen = nullptr, *send = nullptr, *recv = nullptr;
  };
  static Job begin(const char* profiler, ncclProfilerCallback_t callback) {
    if (profiler != nullptr) ::setenv("NCCL_PROFILER_PLUGIN", profiler, 1);
    Job job;
    EXPECT_EQ(net().init(&job.context, 1, nullptr, LogCatcher::log, callback), ncclSuccess);
    std::array<std::byte, NCCL_NET_HANDLE_MAXSIZE> handle{};
    ncclNetDeviceHandle_t* offload = nullptr;
    EXPECT_EQ(net().listen(job.context, 0, handle.data(), &job.listen), ncclSuccess);
    EXPECT_EQ(net().connect(job.context, 0, handle.data(), &job.send, &offload), ncclSuccess);
    EXPECT_EQ(net().accept(job.listen, &job.recv, &offload), ncclSuccess);
    return job;
  }
  static void end(const Job& job) {
    EXPECT_EQ(net().closeSend(job.send), ncclSuccess);
    EXPECT_EQ(net().closeRecv(job.recv), ncclSuccess);
    EXPECT_EQ(net().closeListen(job.listen), ncclSuccess);
    EXPECT_EQ(net().finalize(job.context), ncclSuccess);
  }
  static const ncclNet_v12_t& net() { return ncclNetPlugin_v12; }

  static void* send(const Job& job, std::size_t bytes, void* phandle) {
    static char data[8];
    void* request = nullptr;
    EXPECT_EQ(net().isend(job.send, data, bytes, 7, nullptr, phandle, &request), ncclSuccess);
    return request;
  }
  // Sends what stays open until the test says otherwise.
  void* send_open(const Job& job, std::size_t bytes) {
    state().test_answer = Errc::WouldBlock;
    return send(job, bytes, &phandle_);
  }
  // Makes the engine report a post at its next look.
  static void engine_posts(std::uint32_t queue_pair, std::uint64_t offset, std::uint64_t bytes) {
    state().posted.push_back({.request = state().last_send,
                              .rail = 1,
                              .queue_pair = queue_pair,
                              .work_request = 90,
                              .offset = offset,
                              .bytes = bytes});
  }
  static int test(void* request) {
    int done = 77, bytes = -1;
    EXPECT_EQ(net().test(request, &done, &bytes), ncclSuccess);
    return done == 1 ? bytes : -done - 1;
  }
  static constexpr int kOpen = -1;
  int phandle_ = 0;
};

TEST_F(Events, AreOffWithoutACallbackOrWithoutAProfilersName) {
  const auto callback = &ProfilerRecorder::callback;
  for (const auto& [name, given] :
       {std::pair{"recorder", ncclProfilerCallback_t{nullptr}}, std::pair{"NonE", +callback}}) {
    SCOPED_TRACE(name);
    const Job job = begin(name, given);
    EXPECT_EQ(net().isend, &calls::isend_v10) << "nothing is in the way of a message";
    EXPECT_EQ(net().irecv, &calls::irecv_v10);
    EXPECT_EQ(net().test, &calls::test);
    EXPECT_EQ(test(send(job, 5, &phandle_)), 5);
    end(job);
  }
  EXPECT_TRUE(ProfilerRecorder::events().empty());
}

TEST_F(Events, ASendHasOneForEachQueuePairFromThePostToTheEnd) {
  const Job job = begin("recorder", &ProfilerRecorder::callback);
  void* const request = send_open(job, 300);
  EXPECT_TRUE(ProfilerRecorder::events().empty()) << "nothing has gone out yet";
  engine_posts(11, 0, 200);
  engine_posts(12, 200, 100);
  engine_posts(12, 200, 100);  // the next part of the same stripe
  EXPECT_EQ(test(request), kOpen);
  const std::vector<Watched> open = ProfilerRecorder::events();
  ASSERT_EQ(open.size(), 2u);
  EXPECT_EQ(open[0].phandle, &phandle_);
  EXPECT_EQ(open[0].id, (1 << 16) | 1);
  EXPECT_EQ(open[0].started.type, 1);
  EXPECT_EQ(open[0].started.qp.device, 1);
  EXPECT_EQ(open[0].started.qp.wr_id, 90u);
  EXPECT_EQ(open[0].started.qp.qpNum, 11);
  EXPECT_EQ(open[0].started.qp.length, 200u);
  EXPECT_EQ(open[1].started.qp.qpNum, 12);
  EXPECT_EQ(open[1].started.qp.length, 100u);
  EXPECT_FALSE(open[0].stopped || open[1].stopped);
  state().test_answer = Errc::Ok;
  EXPECT_EQ(test(request), 300);
  EXPECT_EQ(ProfilerRecorder::open_count(), 0u);
  end(job);
}

TEST_F(Events, AStripeThatAnotherQueuePairCarriesEndsTheFirstOnes) {
  const Job job = begin("recorder", &ProfilerRecorder::callback);
  void* const request = send_open(job, 300);
  engine_posts(11, 0, 300);
  EXPECT_EQ(test(request), kOpen);
  engine_posts(21, 0, 300);
  EXPECT_EQ(test(request), kOpen);
  const std::vector<Watched> seen = ProfilerRecorder::events();
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_TRUE(seen[0].stopped && !seen[1].stopped);
  EXPECT_EQ(seen[1].started.qp.qpNum, 21);
  state().test_answer = Errc::Ok;
  EXPECT_EQ(test(request), 300);
  end(job);
}

TEST_F(Events, ASendThatNobodySawPostedNamesNoQueuePair) {
  const Job job = begin("recorder", &ProfilerRecorder::callback);
  EXPECT_EQ(test(send(job, 300, &phandle_)), 300);
  const std::vector<Watched> seen = ProfilerRecorder::events();
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].started.qp.qpNum, -1);
  EXPECT_EQ(seen[0].started.qp.length, 300u);
  EXPECT_TRUE(seen[0].stopped);
  end(job);
}

// NCCL's example profiler has room for eight events of a request, and writes behind it for more.
TEST_F(Events, AreAtMostEightOfARequest) {
  const Job job = begin("recorder", &ProfilerRecorder::callback);
  void* const request = send_open(job, 1200);
  for (std::uint32_t i = 0; i < 12; ++i) engine_posts(30 + i, i * 100, 100);
  EXPECT_EQ(test(request), kOpen);
  EXPECT_EQ(ProfilerRecorder::events().size(), 8u);
  state().test_answer = Errc::Ok;
  EXPECT_EQ(test(request), 1200);
  end(job);
}

TEST_F(Events, OfGroupedReceivesEachMemberHasOneWithItsBytes) {
  const Job job = begin("recorder", &ProfilerRecorder::callback);
  char data[8];
  std::array<int, 2> phandles{}, tags{41, 42}, sizes{};
  std::array<std::size_t, 2> room{100, 200};
  std::array<void*, 2> addresses{data, data}, mhandles{}, handles{&phandles[0], &phandles[1]};
  void* request = nullptr;
  ASSERT_EQ(net().irecv(job.recv, 2, addresses.data(), room.data(), tags.data(), mhandles.data(),
                        handles.data(), &request),
            ncclSuccess);
  const std::vector<Watched> open = ProfilerRecorder::events();
  ASSERT_EQ(open.size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(open[i].phandle, &phandles[i]);
    EXPECT_EQ(open[i].started.qp.length, room[i]);
    EXPECT_EQ(open[i].started.qp.qpNum, -1) << "the sender chooses it";
  }
  int done = 0;
  EXPECT_EQ(net().test(request, &done, sizes.data()), ncclSuccess);
  EXPECT_EQ(done, 1);
  const std::vector<Watched> seen = ProfilerRecorder::events();
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_TRUE(seen[i].stopped);
    EXPECT_EQ(seen[i].updated.qp.length, 41 + i) << "the fake's size is the tag";
    EXPECT_EQ(sizes[i], static_cast<int>(41 + i));
  }
  end(job);
}

TEST_F(Events, OfOpenRequestsStopWhenTheRequestFailsOrTheCommGoes) {
  const Job job = begin("recorder", &ProfilerRecorder::callback);
  int done = 77;
  void* const fails = send_open(job, 300);
  engine_posts(11, 0, 300);
  EXPECT_EQ(test(fails), kOpen);
  state().test_answer = Errc::PeerClosed;
  EXPECT_NE(net().test(fails, &done, nullptr), ncclSuccess);
  EXPECT_EQ(ProfilerRecorder::open_count(), 0u);
  void* const left = send_open(job, 300);
  engine_posts(11, 0, 300);
  EXPECT_EQ(test(left), kOpen);
  EXPECT_EQ(ProfilerRecorder::open_count(), 1u);
  state().test_answer = Errc::Ok;
  end(job);
  EXPECT_EQ(ProfilerRecorder::open_count(), 0u);
}

TEST_F(Events, StopWithACommunicatorThatTakesItsCommsAlong) {
  const Job job = begin("recorder", &ProfilerRecorder::callback);
  void* const request = send_open(job, 300);
  engine_posts(11, 0, 300);
  EXPECT_EQ(test(request), kOpen);
  EXPECT_EQ(net().finalize(job.context), ncclSuccess);
  EXPECT_EQ(ProfilerRecorder::open_count(), 0u);
  EXPECT_EQ(net().finalize(job.context), ncclSuccess) << "is ignored";
  state().test_answer = Errc::Ok;
}

// The profiler wants no network events, so the handle stays null and must not come back.
TEST_F(Events, ThatNobodyTakesAreNeverStopped) {
  const Job job = begin("recorder", &ProfilerRecorder::deaf_callback);
  EXPECT_EQ(test(send(job, 300, &phandle_)), 300);
  EXPECT_EQ(test(send(job, 300, nullptr)), 300) << "of the bootstrap, which has no handle";
  end(job);
}

}  // namespace
}  // namespace mesh::plugin

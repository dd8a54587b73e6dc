#include "tests/unit/plugin/plugin_test.h"

namespace mesh::plugin {
namespace {

void* const kStale = reinterpret_cast<void*>(std::uintptr_t{0xdead0});
void* const kNoCompletion = reinterpret_cast<void*>(NCCL_NET_OPTIONAL_RECV_COMPLETION);

class Tables : public PluginTest, public ::testing::WithParamInterface<int> {
 protected:
  void SetUp() override {
    PluginTest::SetUp();
    for (const AnyNet& candidate : every_net()) {
      if (candidate.version == GetParam()) net_ = candidate;
    }
    ASSERT_EQ(net_.init(LogCatcher::log, NCCL_NET_TRAFFIC_CLASS_UNDEF, &context_), ncclSuccess);
  }
  void TearDown() override {
    EXPECT_EQ(net_.finalize(context_), ncclSuccess);
    PluginTest::TearDown();
  }
  ncclResult_t remote_error() const {
    return net_.version == 5 ? ncclSystemError : ncclRemoteError;
  }

  AnyNet net_;
  void* context_ = nullptr;
};

INSTANTIATE_TEST_SUITE_P(Version, Tables, ::testing::Range(5, 13));

TEST_P(Tables, IsNamedMesh) { EXPECT_STREQ(net_.name, "Mesh"); }

TEST_P(Tables, CountsTheRails) {
  int count = -1;
  EXPECT_EQ(net_.devices(&count), ncclSuccess);
  EXPECT_EQ(count, 2);
}

TEST_P(Tables, HandleTravelsWholeAndComesBackWithTheStage) {
  std::array<std::byte, NCCL_NET_HANDLE_MAXSIZE> handle{};
  void* listener = kStale;
  ASSERT_EQ(net_.listen({context_, 1}, handle.data(), &listener), ncclSuccess);
  EXPECT_EQ(state().rail, 1);
  const auto as_listened = handle;
  state().connect_answer = Errc::WouldBlock;
  void* send = kStale;
  ASSERT_EQ(net_.connect({context_, 1}, handle.data(), &send), ncclSuccess);
  EXPECT_EQ(send, nullptr);
  EXPECT_EQ(state().handle_seen, as_listened);
  EXPECT_NE(handle.back(), as_listened.back()) << "the stage must reach the next call";
  const auto as_staged = handle;
  state().connect_answer = Errc::Ok;
  ASSERT_EQ(net_.connect({context_, 1}, handle.data(), &send), ncclSuccess);
  EXPECT_EQ(state().handle_seen, as_staged);
  EXPECT_NE(send, nullptr);
  EXPECT_EQ(net_.close_send(send), ncclSuccess);
  EXPECT_EQ(net_.close_listen(listener), ncclSuccess);
}

TEST_P(Tables, AcceptWithoutAPeerIsSuccessWithoutAComm) {
  Connected made = connect_to_self(net_, context_);
  state().accept_answer = Errc::WouldBlock;
  void* recv = kStale;
  EXPECT_EQ(net_.accept(made.listen, &recv), ncclSuccess);
  EXPECT_EQ(recv, nullptr);
  close_all(net_, made);
}

TEST_P(Tables, SendArgumentsArriveUnchanged) {
  Connected made = connect_to_self(net_, context_);
  char data[64];
  void* mhandle = nullptr;
  ASSERT_EQ(net_.reg_mr({made.send, data, sizeof(data), NCCL_PTR_HOST}, &mhandle), ncclSuccess);
  EXPECT_EQ(state().registered.data, data);
  EXPECT_EQ(state().registered.bytes, sizeof(data));
  EXPECT_EQ(state().registered.type, MemoryType::Host);
  void* request = kStale;
  ASSERT_EQ(net_.isend({made.send, data + 8, 40, 17, mhandle}, &request), ncclSuccess);
  EXPECT_EQ(state().channel_seen, made.send);
  EXPECT_EQ(state().sent.data, data + 8);
  EXPECT_EQ(state().sent.bytes, 40u);
  EXPECT_EQ(state().sent.tag, 17u);
  EXPECT_EQ(state().sent.region, mhandle);
  int done = -1;
  int bytes = -1;
  ASSERT_EQ(net_.test(request, &done, &bytes), ncclSuccess);
  EXPECT_EQ(done, 1);
  EXPECT_EQ(bytes, 40);
  EXPECT_EQ(net_.dereg_mr(made.send, mhandle), ncclSuccess);
  close_all(net_, made);
}

TEST_P(Tables, ReceiveArgumentsArriveUnchangedAndTheMarkerIsIgnored) {
  Connected made = connect_to_self(net_, context_);
  char data[64];
  for (void* const slot : {kStale, kNoCompletion, static_cast<void*>(nullptr)}) {
    void* request = slot;
    ASSERT_EQ(net_.irecv({made.recv, data, sizeof(data), 5, nullptr}, &request), ncclSuccess);
    EXPECT_NE(request, slot);
    ASSERT_NE(request, nullptr);
    EXPECT_EQ(state().channel_seen, made.recv);
    EXPECT_EQ(state().received.data, data);
    EXPECT_EQ(state().received.bytes, sizeof(data));
    EXPECT_EQ(state().received.tag, 5u);
    int done = 0;
    EXPECT_EQ(net_.test(request, &done, nullptr), ncclSuccess) << "NCCL 2.12 passes no sizes";
    EXPECT_EQ(done, 1);
  }
  close_all(net_, made);
}

TEST_P(Tables, NoRoomIsSuccessWithANullRequest) {
  Connected made = connect_to_self(net_, context_);
  state().isend_answer = state().irecv_answer = Errc::WouldBlock;
  char data[8];
  for (void* const slot : {kStale, kNoCompletion}) {
    void* request = slot;
    EXPECT_EQ(net_.isend({made.send, data, 8, 0, nullptr}, &request), ncclSuccess);
    EXPECT_EQ(request, nullptr);
    request = slot;
    EXPECT_EQ(net_.irecv({made.recv, data, 8, 0, nullptr}, &request), ncclSuccess);
    EXPECT_EQ(request, nullptr);
  }
  EXPECT_TRUE(LogCatcher::lines(NCCL_LOG_WARN).empty());
  close_all(net_, made);
}

TEST_P(Tables, UnfinishedIsDoneZero) {
  Connected made = connect_to_self(net_, context_);
  void* request = nullptr;
  char data[8];
  ASSERT_EQ(net_.isend({made.send, data, 8, 0, nullptr}, &request), ncclSuccess);
  state().test_answer = Errc::WouldBlock;
  int done = 77;
  EXPECT_EQ(net_.test(request, &done, nullptr), ncclSuccess);
  EXPECT_EQ(done, 0);
  state().test_answer = Errc::Ok;
  EXPECT_EQ(net_.test(request, &done, nullptr), ncclSuccess);
  EXPECT_EQ(done, 1);
  close_all(net_, made);
}

TEST_P(Tables, SizesBeyondIntSaturate) {
  Connected made = connect_to_self(net_, context_);
  void* request = nullptr;
  char data[8];
  ASSERT_EQ(net_.isend({made.send, data, 8, 0, nullptr}, &request), ncclSuccess);
  state().bytes_tested = std::size_t{1} << 33;
  int done = 0;
  int bytes = 0;
  EXPECT_EQ(net_.test(request, &done, &bytes), ncclSuccess);
  EXPECT_EQ(bytes, std::numeric_limits<int>::max());
  close_all(net_, made);
}

TEST_P(Tables, PeerTroubleIsARemoteErrorWhereTheCallerKnowsIt) {
  Connected made = connect_to_self(net_, context_);
  state().isend_answer = Errc::PeerGone;
  state().irecv_answer = Errc::PeerClosed;
  char data[8];
  void* request = kStale;
  EXPECT_EQ(net_.isend({made.send, data, 8, 0, nullptr}, &request), remote_error());
  EXPECT_EQ(request, nullptr);
  request = kStale;
  EXPECT_EQ(net_.irecv({made.recv, data, 8, 0, nullptr}, &request), remote_error());
  EXPECT_EQ(request, nullptr);
  state().isend_answer = Errc::Ok;
  ASSERT_EQ(net_.isend({made.send, data, 8, 0, nullptr}, &request), ncclSuccess);
  state().test_answer = Errc::Truncated;
  int done = 77;
  EXPECT_EQ(net_.test(request, &done, nullptr), remote_error());
  EXPECT_EQ(done, 0);
  close_all(net_, made);
}

TEST_P(Tables, FailedConnectionLeavesTheCommNull) {
  state().listen_answer = Errc::Exhausted;
  std::array<std::byte, NCCL_NET_HANDLE_MAXSIZE> handle{};
  void* comm = kStale;
  EXPECT_EQ(net_.listen({context_, 0}, handle.data(), &comm), ncclInternalError);
  EXPECT_EQ(comm, nullptr);
  state().connect_answer = Errc::Unreachable;
  comm = kStale;
  EXPECT_EQ(net_.connect({context_, 0}, handle.data(), &comm), remote_error());
  EXPECT_EQ(comm, nullptr);
  state().listen_answer = Errc::Ok;
  void* listener = nullptr;
  ASSERT_EQ(net_.listen({context_, 0}, handle.data(), &listener), ncclSuccess);
  state().accept_answer = Errc::Protocol;
  comm = kStale;
  EXPECT_EQ(net_.accept(listener, &comm), remote_error());
  EXPECT_EQ(comm, nullptr);
  EXPECT_EQ(net_.close_listen(listener), ncclSuccess);
}

TEST_P(Tables, NothingIsClosedTwiceAndNullIsFine) {
  EXPECT_EQ(net_.close_send(nullptr), ncclSuccess);
  EXPECT_EQ(net_.close_recv(nullptr), ncclSuccess);
  EXPECT_EQ(net_.close_listen(nullptr), ncclSuccess);
  EXPECT_EQ(net_.finalize(nullptr), ncclSuccess);
  Connected made = connect_to_self(net_, context_);
  EXPECT_EQ(net_.dereg_mr(made.send, nullptr), ncclSuccess);
  close_all(net_, made);
}

TEST_P(Tables, MemoryIsTheHostsOrADevices) {
  Connected made = connect_to_self(net_, context_);
  char data[8];
  void* mhandle = kStale;
  ASSERT_EQ(net_.reg_mr({made.send, data, 8, NCCL_PTR_CUDA}, &mhandle), ncclSuccess);
  EXPECT_EQ(state().registered.type, MemoryType::Device);
  EXPECT_EQ(state().registered.fd, -1) << "known by its address";
  EXPECT_EQ(net_.dereg_mr(made.send, mhandle), ncclSuccess);
  mhandle = kStale;
  EXPECT_EQ(net_.reg_mr({made.send, data, 8, NCCL_PTR_DMABUF}, &mhandle), ncclInvalidUsage);
  EXPECT_EQ(mhandle, nullptr);
  EXPECT_EQ(LogCatcher::lines(NCCL_LOG_WARN).size(), 1u);
  state().register_answer = Errc::System;
  mhandle = kStale;
  EXPECT_EQ(net_.reg_mr({made.send, data, 8, NCCL_PTR_HOST}, &mhandle), ncclSystemError);
  EXPECT_EQ(mhandle, nullptr);
  close_all(net_, made);
}

TEST_P(Tables, MemoryOfAClosedCommIsRefused) {
  Connected made = connect_to_self(net_, context_);
  close_all(net_, made);
  state().channel_seen = nullptr;
  char data[8];
  void* mhandle = kStale;
  EXPECT_EQ(net_.reg_mr({made.send, data, 8, NCCL_PTR_HOST}, &mhandle), ncclInvalidUsage);
  EXPECT_EQ(mhandle, nullptr);
  const RegCall call{made.recv, data, 8, NCCL_PTR_CUDA, 65536, 17};
  mhandle = kStale;
  EXPECT_EQ(net_.reg_mr_dmabuf ? net_.reg_mr_dmabuf(call, &mhandle) : net_.reg_mr(call, &mhandle),
            ncclInvalidUsage);
  EXPECT_EQ(mhandle, nullptr);
  EXPECT_EQ(state().registrations_alive, 0) << "nobody could give it back";
  const auto lines = LogCatcher::lines(NCCL_LOG_WARN);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_NE(lines[0].second.find("is not open"), std::string::npos) << lines[0].second;
}

TEST_P(Tables, DmaBuffersArriveUnchanged) {
  if (!net_.reg_mr_dmabuf) return;  // version 5 has no such call
  Connected made = connect_to_self(net_, context_);
  char data[8];
  void* mhandle = kStale;
  const RegCall call{made.send, data, 8, NCCL_PTR_CUDA, 65536, 17};
  ASSERT_EQ(net_.reg_mr_dmabuf(call, &mhandle), ncclSuccess);
  EXPECT_EQ(state().registered.type, MemoryType::Device);
  EXPECT_EQ(state().registered.data, data);
  EXPECT_EQ(state().registered.bytes, 8u);
  EXPECT_EQ(state().registered.fd, 17);
  EXPECT_EQ(state().registered.offset, 65536u);
  EXPECT_EQ(net_.dereg_mr(made.send, mhandle), ncclSuccess);
  for (const RegCall& bad : {RegCall{made.send, data, 8, NCCL_PTR_HOST, 0, 17},
                             RegCall{made.send, data, 8, NCCL_PTR_CUDA, 0, -1},
                             RegCall{nullptr, data, 8, NCCL_PTR_CUDA, 0, 17}}) {
    mhandle = kStale;
    EXPECT_EQ(net_.reg_mr_dmabuf(bad, &mhandle), ncclInvalidUsage);
    EXPECT_EQ(mhandle, nullptr);
  }
  EXPECT_EQ(LogCatcher::lines(NCCL_LOG_WARN).size(), 3u);
  close_all(net_, made);
}

// NCCL omits members without bytes from the addresses, but not from the sizes.
TEST_P(Tables, AFlushIsThatOfTheLastMember) {
  Connected made = connect_to_self(net_, context_);
  char memory[8];
  void* data[] = {memory, memory + 4};
  int bytes[] = {0, 0};
  void* mhandle = nullptr;
  ASSERT_EQ(net_.reg_mr({made.recv, memory, 8, NCCL_PTR_HOST}, &mhandle), ncclSuccess);
  void* mhandles[] = {mhandle, mhandle};
  void* request = kStale;
  EXPECT_EQ(net_.iflush_of(made.recv, {2, data, bytes, mhandles}, &request), ncclSuccess);
  EXPECT_EQ(state().flushed.data, memory + 4);
  EXPECT_EQ(state().flushed.region, mhandle);
  int done = 0;
  EXPECT_NE(request, nullptr);
  EXPECT_EQ(net_.test(request, &done, nullptr), ncclSuccess);
  EXPECT_EQ(done, 1);
  EXPECT_EQ(net_.dereg_mr(made.recv, mhandle), ncclSuccess);
  close_all(net_, made);
}

TEST_P(Tables, AFlushOfNothingIsDone) {
  Connected made = connect_to_self(net_, context_);
  void* request = kStale;
  EXPECT_EQ(net_.iflush(made.recv, &request), ncclSuccess);
  EXPECT_EQ(request, nullptr);
  close_all(net_, made);
}

TEST_P(Tables, GroupsOfNoneAndOfNineAreRefused) {
  Connected made = connect_to_self(net_, context_);
  char data[8];
  for (const int n : {-1, 0, 9}) {
    void* request = kStale;
    EXPECT_EQ(net_.irecv({made.recv, data, 8, 0, nullptr, n}, &request), ncclInvalidUsage);
    EXPECT_EQ(request, nullptr);
  }
  EXPECT_EQ(LogCatcher::lines(NCCL_LOG_WARN).size(), 3u);
  close_all(net_, made);
}

TEST_P(Tables, NullObjectsAreRefusedNotFollowed) {
  void* request = kStale;
  char data[8];
  void* mhandle = kStale;
  int done = 77;
  EXPECT_EQ(net_.isend({nullptr, data, 8, 0, nullptr}, &request), ncclInvalidUsage);
  EXPECT_EQ(request, nullptr);
  EXPECT_EQ(net_.irecv({nullptr, data, 8, 0, nullptr}, &request), ncclInvalidUsage);
  EXPECT_EQ(net_.test(nullptr, &done, nullptr), ncclInvalidUsage);
  EXPECT_EQ(done, 0);
  EXPECT_EQ(net_.reg_mr({nullptr, data, 8, NCCL_PTR_HOST}, &mhandle), ncclInvalidUsage);
  void* comm = kStale;
  EXPECT_EQ(net_.accept(nullptr, &comm), ncclInvalidUsage);
  EXPECT_EQ(comm, nullptr);
}

TEST_P(Tables, DevicesOutOfRangeAreRefused) {
  std::array<std::byte, NCCL_NET_HANDLE_MAXSIZE> handle{};
  for (const int device : {-1, 2, 127, 1 << 30}) {
    void* comm = kStale;
    EXPECT_EQ(net_.listen({context_, device}, handle.data(), &comm), ncclInvalidArgument);
    EXPECT_EQ(net_.connect({context_, device}, handle.data(), &comm), ncclInvalidArgument);
    EXPECT_EQ(comm, nullptr);
  }
}

TEST_P(Tables, ExceptionsStopAtTheBorder) {
  state().throws = true;
  std::array<std::byte, NCCL_NET_HANDLE_MAXSIZE> handle{};
  void* comm = kStale;
  EXPECT_EQ(net_.listen({context_, 0}, handle.data(), &comm), ncclSystemError);
  EXPECT_EQ(comm, nullptr);
  ASSERT_EQ(LogCatcher::lines(NCCL_LOG_WARN).size(), 1u);
  EXPECT_NE(LogCatcher::lines(NCCL_LOG_WARN)[0].second.find("no memory left"), std::string::npos);
}

// From v9 on sizes are unsigned.
TEST_F(PluginTest, NegativeSizesAreRefused) {
  for (const AnyNet& net : every_net()) {
    if (net.version >= 9) continue;
    void* context = nullptr;
    ASSERT_EQ(net.init(LogCatcher::log, NCCL_NET_TRAFFIC_CLASS_UNDEF, &context), ncclSuccess);
    const Connected made = connect_to_self(net, context);
    char data[8];
    const SendCall negative{made.send, data, static_cast<std::size_t>(-1), 0, nullptr};
    void* request = kStale;
    EXPECT_EQ(net.isend(negative, &request), ncclInvalidArgument);
    EXPECT_EQ(request, nullptr);
    request = kStale;
    EXPECT_EQ(net.irecv(negative, &request), ncclInvalidArgument);
    EXPECT_EQ(request, nullptr);
    close_all(net, made);
  }
}

TEST(OptionalMembers, AreNullWhereNcclAsksFirst) {
  EXPECT_EQ(ncclNetPlugin_v12.getDeviceMr, nullptr);
  EXPECT_EQ(ncclNetPlugin_v12.irecvConsumed, nullptr);
  EXPECT_EQ(ncclNetPlugin_v12.makeVDevice, nullptr);
  EXPECT_EQ(ncclNetPlugin_v11.makeVDevice, nullptr);
}

// NCCL calls iflush always, and finalize from v11 on, without a check. setNetAttr has no effect.
TEST(OptionalMembers, AreThereWhereNcclDoesNotAsk) {
  EXPECT_NE(ncclNetPlugin_v11.finalize, nullptr);
  EXPECT_NE(ncclNetPlugin_v12.finalize, nullptr);
  EXPECT_NE(ncclNetPlugin_v5.iflush, nullptr);
  ncclNetAttr_v12_t attributes{};
  EXPECT_EQ(ncclNetPlugin_v12.setNetAttr(nullptr, &attributes), ncclSuccess);
}

}  // namespace
}  // namespace mesh::plugin

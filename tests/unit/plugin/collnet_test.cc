#include "plugin/collnet.h"

#include "tests/unit/plugin/one_shot_test.h"

namespace mesh::plugin {
namespace {

class CollNet : public OneShotTest {
 protected:
  // Connects a group that votes no, and says why if `why` is not empty.
  void expect_no(int members, const std::string& why = {}) {
    void* const comm = connect(listen(), members);
    if (!why.empty()) {
      EXPECT_EQ(LogCatcher::lines(NCCL_LOG_WARN).at(0).second,
                "NET/Mesh : one-shot all-reduce is off for a communicator of " +
                    std::to_string(members) + ": " + why);
    }
    EXPECT_EQ(supported(), 0);
    EXPECT_EQ(collnet::close_coll(comm), ncclSuccess);
  }
};

std::string warning(std::size_t index) {
  const auto lines = LogCatcher::lines(NCCL_LOG_WARN);
  return index < lines.size() ? lines[index].second : "";
}

TEST_F(CollNet, IsOneDeviceWithThePropertiesOfTheNets) {
  begin();
  int count = 0;
  EXPECT_EQ(collnet::devices(&count), ncclSuccess);
  EXPECT_EQ(count, 1) << "hosts with other numbers of rails would fail NCCL's init";
  nccl::NewestProperties ours, nets;
  EXPECT_EQ(collnet::properties(0, &ours), ncclSuccess);
  EXPECT_EQ(nccl::Version<12>::table().getProperties(0, &nets), ncclSuccess);
  EXPECT_STREQ(ours.name, nets.name);
  EXPECT_EQ(ours.ptrSupport, nets.ptrSupport);
  EXPECT_EQ(ours.speed, nets.speed);
  EXPECT_EQ(ours.guid, nets.guid);
  EXPECT_GT(ours.maxCollBytes, 0u);
  end();
}

TEST_F(CollNet, IsRefusedUnlessItIsAskedFor) {
  ::unsetenv("NCCL_MESH_ONESHOT_BYTES");
  net_ = every_net().back();
  ASSERT_EQ(net_.init(LogCatcher::log, NCCL_NET_TRAFFIC_CLASS_UNDEF, &net_context_), ncclSuccess);
  EXPECT_NE(collnet::init_communicator(kComm, LogCatcher::log, &context_), ncclSuccess);
  EXPECT_NE(collnet::init_process(LogCatcher::log), ncclSuccess);
  EXPECT_EQ(net_.finalize(net_context_), ncclSuccess);
}

TEST_F(CollNet, ReducesTheTypesAndOperationsThatItKnows) {
  for (int type = 0; type < 12; ++type) {
    for (int operation = 0; operation < 5; ++operation)
      EXPECT_EQ(supported(type, operation), type < 10 && operation < 4 ? 1 : 0);
  }
  EXPECT_EQ(supported(-1, 0), 0);
  EXPECT_EQ(supported(7, -1), 0);
}

// The peers refuse, so there is no group; connect succeeds all the same.
TEST_F(CollNet, AGroupThatFailsVotesNoUntilItIsClosed) {
  begin();
  void* const listener = listen();
  state().connect_answer = state().accept_answer = Errc::PeerGone;
  void* const comm = connect(listener, 3);
  EXPECT_EQ(warning(0),
            "NET/Mesh : one-shot all-reduce is off for a communicator of 3: its members do not "
            "connect (peer gone)");
  EXPECT_EQ(supported(), 0);
  void* mhandle = nullptr;
  EXPECT_EQ(collnet::reg_mr(comm, NCCL_PTR_CUDA, &mhandle), ncclSuccess) << "NCCL still registers";
  EXPECT_NE(mhandle, nullptr);
  void* request = nullptr;
  EXPECT_NE(collnet::iallreduce(comm, {}, {}, &request), ncclSuccess);
  EXPECT_EQ(collnet::close_coll(comm), ncclSuccess);
  EXPECT_EQ(supported(), 1);
  end();
}

TEST_F(CollNet, AnEngineThatCannotListenVotesNo) {
  begin();
  state().listen_answer = Errc::Exhausted;
  expect_no(3);
  state().context_answer = Errc::Exhausted;
  expect_no(3);
  end();
}

TEST_F(CollNet, SeventeenMembersVoteNo) {
  begin();
  expect_no(17, "it has 2 to 16 members");
  end();
}

// A NIC that reaches GPU memory would be asked to reduce it.
TEST_F(CollNet, AHostWithGpuDirectVotesNo) {
  for (RailInfo& each : state().rails) each.dma_buffers = true;
  begin();
  state().connect_answer = state().accept_answer = Errc::PeerClosed;
  expect_no(2, "this host's NICs reach GPU memory (NCCL_MESH_GDR=off would end that)");
  end();
}

// After an abort NCCL leaves open what it had no time to close.
TEST_F(CollNet, FinalizeClosesWhatIsOpen) {
  begin();
  void* const listener = listen();
  state().connect_answer = state().accept_answer = Errc::PeerGone;
  void* const comm = connect(listen(), 2);
  EXPECT_EQ(supported(), 0);
  end();
  EXPECT_EQ(supported(), 1);
  EXPECT_EQ(state().contexts_alive, 0);
  EXPECT_EQ(collnet::close_coll(comm), ncclSuccess) << "as NCCL does after all";
  EXPECT_EQ(collnet::close_listen(listener), ncclSuccess);
}

TEST_F(CollNet, AListenerThatNeverConnectsIsClosed) {
  begin();
  EXPECT_EQ(collnet::close_listen(listen()), ncclSuccess);
  EXPECT_EQ(state().listeners_alive, 0);
  EXPECT_EQ(supported(), 1) << "it was in no group";
  end();
}

TEST_F(CollNet, CallsOutOfOrderAreRefused) {
  void* comm = nullptr;
  EXPECT_NE(collnet::listen(nullptr, 0, handle_.data(), &comm), ncclSuccess);
  begin();
  EXPECT_NE(collnet::listen(context_, 1, handle_.data(), &comm), ncclSuccess);
  EXPECT_NE(collnet::connect({}, nullptr, &comm), ncclSuccess);
  void* handle = nullptr;
  EXPECT_NE(collnet::reg_mr(nullptr, NCCL_PTR_HOST, &handle), ncclSuccess);
  void* request = nullptr;
  EXPECT_NE(collnet::iallreduce(nullptr, {}, {}, &request), ncclSuccess);
  int done = 7;
  EXPECT_NE(collnet::test(nullptr, &done, nullptr), ncclSuccess);
  EXPECT_EQ(done, 0);
  void* const context = context_;
  end();
  EXPECT_NE(collnet::finalize(context), ncclSuccess);
}

}  // namespace
}  // namespace mesh::plugin

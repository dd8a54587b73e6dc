#pragma once
// The base of the tests of CollNet and tuner: an environment that asks for one-shot all-reduce, and
// NCCL's order of calls around a communicator. Thread: the test's.

#include "plugin/collnet.h"
#include "tests/prelude.h"
#include "tests/unit/plugin/plugin_test.h"

namespace mesh::plugin {

class OneShotTest : public PluginTest {
 protected:
  static constexpr std::uint64_t kComm = 0x1234;

  void SetUp() override {
    PluginTest::SetUp();
    ::setenv("NCCL_MESH_ONESHOT_BYTES", "64K", 1);
  }
  void TearDown() override {
    ::unsetenv("NCCL_MESH_ONESHOT_BYTES");
    PluginTest::TearDown();
  }
  void begin() {
    net_ = every_net().back();
    ASSERT_EQ(net_.init(LogCatcher::log, NCCL_NET_TRAFFIC_CLASS_UNDEF, &net_context_), ncclSuccess);
    ASSERT_EQ(collnet::init_communicator(kComm, LogCatcher::log, &context_), ncclSuccess);
  }
  // NCCL ends the net first.
  void end() {
    EXPECT_EQ(net_.finalize(net_context_), ncclSuccess);
    EXPECT_EQ(collnet::finalize(context_), ncclSuccess);
  }
  void* listen() {
    void* listen_comm = nullptr;
    EXPECT_EQ(collnet::listen(context_, 0, handle_.data(), &listen_comm), ncclSuccess);
    EXPECT_NE(listen_comm, nullptr);
    return listen_comm;
  }
  // Connects as member 0, and closes the listener as NCCL does then.
  void* connect(void* listen_comm, int members) {
    std::vector<void*> handles(static_cast<std::size_t>(members), handle_.data());
    void* coll_comm = nullptr;
    EXPECT_EQ(collnet::connect({handles.data(), members, 0}, listen_comm, &coll_comm), ncclSuccess)
        << "NCCL would hang";
    EXPECT_NE(coll_comm, nullptr);
    EXPECT_EQ(collnet::close_listen(listen_comm), ncclSuccess);
    return coll_comm;
  }
  static int supported(int type = 7, int operation = 0) {
    int answer = -1;
    EXPECT_EQ(collnet::reduce_support({type, operation}, &answer), ncclSuccess);
    return answer;
  }

  AnyNet net_;
  void* net_context_ = nullptr;
  void* context_ = nullptr;
  std::array<std::byte, kHandleBytes> handle_{};
};

}  // namespace mesh::plugin

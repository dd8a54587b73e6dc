// The context that init returns, its use by NCCL, and the remains when NCCL forgets to close
// something.
#include "plugin/communicator.h"

#include "tests/unit/plugin/plugin_test.h"

namespace mesh::plugin {
namespace {

class CommunicatorTest : public VersionsTest {};

// Reads and writes the context as NCCL's RMA backend does (net_ib's ncclIbGetTrafficClass and
// ncclIbSetTrafficClass).
TEST_F(CommunicatorTest, NcclReadsAndWritesTheTrafficClassAtTheBeginningOfWhatInitReturned) {
  for (const int version : {11, 12}) {
    void* const context = init(net(version), 104);
    state().calls.clear();
    auto* const config = static_cast<ncclNetCommConfig_v12_t*>(context);
    EXPECT_EQ(config->trafficClass, 104);
    close_all(net(version), connect_to_self(net(version), context));
    EXPECT_EQ(state().calls,
              (std::vector<std::string>{"listener closed", "channel closed", "channel closed"}));
    for (const int written : {8, 8, 300, NCCL_NET_TRAFFIC_CLASS_UNDEF}) {
      config->trafficClass = written;
      state().calls.clear();
      const Connected made = connect_to_self(net(version), context);
      EXPECT_EQ(config->trafficClass, written);
      EXPECT_EQ(static_cast<Channel*>(made.send)->context->traffic_class, written == 8 ? 8 : kAuto);
      close_all(net(version), made);
    }
    EXPECT_EQ(net(version).finalize(context), ncclSuccess);
  }
}

TEST_F(CommunicatorTest, TheLastFinalizeDoesNotWaitForTheEnginesGoodbyes) {
  void* const context = init(net(12));
  std::promise<void> opened;
  state().saying_goodbye = [gate = opened.get_future().share()] { gate.wait(); };
  EXPECT_EQ(net(12).finalize(context), ncclSuccess);  // a wait would never end
  EXPECT_EQ(state().contexts_alive, 0);
  EXPECT_EQ(state().engines_alive, 1) << "it still says goodbye";
  EXPECT_EQ(net(12).finalize(context), ncclSuccess);
  int count = 0;
  EXPECT_EQ(net(12).devices(&count), ncclInvalidUsage) << "it serves nobody any more";
  const int engines = state().engines_opened, goodbyes = state().goodbyes;
  std::thread later([&] {
    void* const second = init(net(12));
    EXPECT_EQ(state().goodbyes, goodbyes + 1) << "never two engines for one host";
    EXPECT_EQ(net(12).finalize(second), ncclSuccess);
  });
  opened.set_value();
  later.join();
  EXPECT_EQ(state().engines_opened, engines + 1);
}

TEST_F(CommunicatorTest, ExitWaitsForTheEnginesGoodbyes) {
  std::promise<void> opened;
  state().saying_goodbye = [gate = opened.get_future().share()] { gate.wait(); };
  EXPECT_EQ(net(12).finalize(init(net(12))), ncclSuccess);
  opened.set_value();
  Registry::instance().process_exits();
  EXPECT_EQ(state().engines_alive, 0);
}

// NCCL does not close the listener of a connect that it gave up, and v5..v10 have no finalize.
TEST_F(CommunicatorTest, ListenersThatNobodyClosesGoWithTheirThread) {
  for (const AnyNet& each : nets_) {
    if (each.version > 10) continue;
    init(each);
    std::vector<void*> left(3);
    for (void*& listener : left) {
      std::thread([&] {
        std::array<std::byte, NCCL_NET_HANDLE_MAXSIZE> handle{};
        EXPECT_EQ(each.listen({}, handle.data(), &listener), ncclSuccess);
      }).join();
    }
    EXPECT_EQ(state().contexts_alive, 0) << each.version;
    EXPECT_EQ(state().listeners_alive, 0) << each.version;
    state().calls.clear();
    EXPECT_EQ(each.close_listen(left[0]), ncclSuccess) << "it went with its thread";
    void* comm = this;
    EXPECT_EQ(each.accept(left[1], &comm), ncclInvalidUsage);
    EXPECT_EQ(comm, nullptr);
    EXPECT_TRUE(state().calls.empty());
  }
}

TEST_F(CommunicatorTest, AListenerThatNobodyClosesLeavesItsThreadsChannelsAlone) {
  init(net(8));
  Connected made;
  std::thread([&] { made = connect_to_self(net(8), nullptr); }).join();
  EXPECT_EQ(net(8).close_send(made.send), ncclSuccess);
  EXPECT_EQ(state().contexts_alive, 1);
  EXPECT_EQ(net(8).close_recv(made.recv), ncclSuccess);
  EXPECT_EQ(state().contexts_alive, 0);
  EXPECT_EQ(state().listeners_alive, 0);
}

}  // namespace
}  // namespace mesh::plugin

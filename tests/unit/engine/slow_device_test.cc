// A device that takes long to take memory back, or to make or destroy a queue pair: nobody else
// waits for it.

#include "tests/unit/engine/slow_device.h"

#include <gtest/gtest.h>

namespace mesh {
namespace {

using testkit::SlowDeviceTest;

TEST_F(SlowDeviceTest, ADeregistrationDelaysNoFailoverOfAnotherCommunicator) {
  const testkit::Pair pair = connect(0, Slow::Connects);
  Registration* const region =
      register_memory(*pair.send, memory_.data(), kBytes, MemoryType::Host).value();
  fail_over_beside_deregistration([&] { deregister_memory(*pair.send, region); });
}

TEST_F(SlowDeviceTest, ADeregistrationDelaysNoFailoverOfItsOwnCommunicator) {
  const testkit::Pair pair = connect(1, Slow::Connects);
  Registration* const region =
      register_memory(*pair.send, memory_.data(), kBytes, MemoryType::Host).value();
  fail_over_beside_deregistration([&] { deregister_memory(*pair.send, region); });
}

TEST_F(SlowDeviceTest, TheEndOfACommunicatorWithRegistrationsDelaysNoFailoverOfAnother) {
  const testkit::Pair pair = connect(0, Slow::Connects);
  ASSERT_TRUE(register_memory(*pair.send, memory_.data(), kBytes, MemoryType::Host).ok());
  fail_over_beside_deregistration([&] { hosts_[0].close_context(0); });
}

TEST_F(SlowDeviceTest, AQueuePairThatAConnectorMakesDelaysNoFailover) {
  fail_over_beside_connecting(Slow::Connects);
}

TEST_F(SlowDeviceTest, AQueuePairThatAnAcceptorMakesDelaysNoFailover) {
  fail_over_beside_connecting(Slow::Accepts);
}

TEST_F(SlowDeviceTest, AQueuePairThatAConnectorMakesAnewDelaysNoFailover) {
  fail_over_beside_reopening(Slow::Connects);
}

TEST_F(SlowDeviceTest, AQueuePairThatAnAcceptorMakesAnewDelaysNoFailover) {
  fail_over_beside_reopening(Slow::Accepts);
}

TEST_F(SlowDeviceTest, AQueuePairThatAConnectorDestroysDelaysNoMessageAndNoFailover) {
  fail_over_beside_destroying(Slow::Connects);
}

TEST_F(SlowDeviceTest, AQueuePairThatAnAcceptorDestroysDelaysNoMessageAndNoFailover) {
  fail_over_beside_destroying(Slow::Accepts);
}

// What the queue pairs still take could land on what is sent again, so FENCE waits for their end.
TEST_F(SlowDeviceTest, AnAcceptorWithoutItsReceivesSendsNoFenceBeforeItsQueuePairsAreDestroyed) {
  const testkit::Pair pair = connect(0, Slow::Accepts);
  const testkit::Pair other = connect(1, Slow::Connects);
  std::atomic<bool> arrived{false};
  device().ignores_stops.store(true);
  device().next_end_is_slow.store(true);
  std::thread traffic([&] {
    lose_path(pair, Slow::Accepts);
    arrived.store(true);
  });
  EXPECT_TRUE(testkit::wait_until([this] { return device().at_it.load(); }));
  device().ignores_stops.store(false);
  fail_over(other);
  EXPECT_FALSE(arrived.load());
  device().done.store(true);
  traffic.join();
  EXPECT_TRUE(testkit::wait_until([this] { return back() == 2 * 2; })) << log_.joined();
}

// Nothing of it is left when it goes; until then nobody waits for it.
TEST_F(SlowDeviceTest, ACommunicatorGoesWhenItsQueuePairsAreDestroyed) {
  const testkit::Pair pair = connect(0, Slow::Connects);
  testkit::exchange(pair, {kBytes}, testkit::Leaves::Nothing);
  Engine& engine = *hosts_[0].engine;
  const std::size_t before = engine.stats().contexts;
  std::atomic<bool> closed{false};
  const auto close = [&] {
    device().next_end_is_slow.store(true);
    hosts_[0].close_context(0);
    closed.store(true);
  };
  fail_over_beside("the end of a communicator", close, [&] {
    EXPECT_TRUE(testkit::wait_until([&] { return closed.load(); }));
    EXPECT_EQ(engine.stats().contexts, before);
  });
  EXPECT_TRUE(testkit::wait_until([&] { return engine.stats().contexts == before - 1; }));
}

class ImpatientSlowDeviceTest : public SlowDeviceTest {
 protected:
  void SetUp() override {
    options_.settings.path_timeout_s = 1;
    open(testkit::kHalves, 2);
  }
};

TEST_F(ImpatientSlowDeviceTest, ALinkThatFailsSaysWhichPathWaitsForTheEndOfItsQueuePairs) {
  const testkit::Pair pair = connect(0, Slow::Accepts);
  Registration* const region =
      register_memory(*pair.receive, memory_.data(), kBytes, MemoryType::Host).value();
  device().next_end_is_slow.store(true);
  soft::Fault lost;
  lost.kind = soft::FaultKind::PeerLost;
  lost.peer_host = "b";
  ASSERT_TRUE(device().under().faults().arm(lost).ok());
  Request* const receiving =
      irecv(*pair.receive, {.data = memory_.data(), .bytes = kBytes, .region = region}).value();
  Status ended;
  EXPECT_TRUE(testkit::wait_until([&] {
    ended = test(*receiving, nullptr);
    return ended.code() != Errc::WouldBlock;
  }));
  EXPECT_EQ(ended.code(), Errc::Timeout);
  const char* const says = "(the device has not yet destroyed the former queue pairs)";
  EXPECT_EQ(log_.count(LogLevel::Warn, says), 1) << log_.joined();
  device().done.store(true);
  deregister_memory(*pair.receive, region);
}

}  // namespace
}  // namespace mesh
